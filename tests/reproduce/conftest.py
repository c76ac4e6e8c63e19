"""Experiments are done in this process here: starting others takes longer than small cells do."""

import pytest

from dataward.api import all_cores


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cores, "cores_here", lambda: 1)
