"""Reads a workflow file of any known format into a ``Workflow``."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from dataward.errors import FormatError
from dataward.formats.content import ReadLimits, file_chunks, unpacked
from dataward.formats.detect import HEAD_BYTES, Format, detect
from dataward.model.builder import WorkflowBuilder
from dataward.model.edges import Edges
from dataward.model.workflow import Workflow

Reader = Callable[[Iterator[bytes], str], WorkflowBuilder]

_DEFAULT_LIMITS = ReadLimits()


def read_workflow(
    path: Path | str, edges: Edges | None = None, *, limits: ReadLimits = _DEFAULT_LIMITS
) -> Workflow:
    """The workflow in a file, whatever its format, gzipped or not.

    Without ``edges``, only the declared edges count, as in a trace; where the files imply others,
    the workflow carries a warning. Content that is wrong in one place raises a FormatError that
    names the place; a workflow wrong as a whole (a cycle, an unknown parent) a WorkflowError.
    """
    return _read(file_chunks(Path(path), str(path)), str(path), edges, limits)


def parse_workflow(
    data: bytes,
    source: str = "workflow",
    edges: Edges | None = None,
    *,
    limits: ReadLimits = _DEFAULT_LIMITS,
) -> Workflow:
    """The same for content already in memory; ``source`` is its name in errors."""
    return _read([data], source, edges, limits)


def _read(
    chunks: Iterable[bytes], source: str, edges: Edges | None, limits: ReadLimits
) -> Workflow:
    try:
        content = unpacked(chunks, source, limits)
        head = _head(content)
        reader = _reader(detect(head, source))
        builder = reader(chain([head], content), source)
        return builder.build(Edges.DECLARED if edges is None else edges)
    except RecursionError as error:
        raise FormatError(source, "is nested too deeply for a workflow") from error
    except MemoryError as error:
        raise FormatError(source, "needs more memory than there is") from error


def _reader(format: Format) -> Reader:
    """The reader of a format, loaded when a file is in it: most runs need neither XML nor YAML."""
    if format is Format.DAX:
        from dataward.formats.dax import read_dax

        return read_dax
    if format is Format.PEGASUS_YAML:
        from dataward.formats.pegasus_yaml import read_pegasus_yaml

        return read_pegasus_yaml
    from dataward.formats.wfformat_read import read_wfformat

    return read_wfformat


def _head(content: Iterator[bytes]) -> bytes:
    head = b""
    for chunk in content:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    return head
