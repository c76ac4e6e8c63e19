"""Whether a workflow can be executed."""

import pytest

from dataward.errors import BadNameError
from dataward.model.builder import WorkflowBuilder
from dataward.model.runnable import check_runnable


def test_a_file_cannot_be_in_another_one():
    wf = WorkflowBuilder("odd")
    wf.task("t", command=("true",), outputs=["a", "a/b/c"])

    with pytest.raises(BadNameError, match=r"'a/b/c' would be in a directory called 'a'"):
        check_runnable(wf.build(), lambda file: True)
