"""docs/strategies.md shows every strategy as one row of parts."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from dataward.strategies.registry import STRATEGIES

SCRIPT = Path(__file__).parents[2] / "docs" / "parts.py"


@pytest.fixture
def parts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_parts_is_what_the_script_writes(parts: ModuleType) -> None:
    page = parts.PAGE.read_text()

    assert parts.page_with_table(page) == page
    assert all(f"| `{name}` |" in page for name in STRATEGIES)
