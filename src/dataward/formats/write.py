"""Writes a ``Workflow`` to a file that is either complete or does not exist."""

import gzip
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dataward.errors import OutputError
from dataward.formats.wfformat_write import render
from dataward.model.workflow import Workflow


def write_workflow(workflow: Workflow, path: Path | str, version: str = "1.6") -> None:
    """Save as WfFormat, gzipped if the name ends in ``.gz``; equal workflows give equal bytes.

    A reader never sees half a file: it is written under another name in the same directory, then
    renamed.
    """
    path = Path(path)
    chunks = render(workflow, version)
    try:
        with _replacing(path) as file:
            if path.suffix == ".gz":
                # The gzip header gets neither name nor time, because both would vary.
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    for chunk in chunks:
                        packed.write(chunk)
            else:
                for chunk in chunks:
                    file.write(chunk)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    if _is_device(path):
        with path.open("wb") as file:
            yield file
        return
    if path.is_dir():
        raise OutputError(str(path), "it is a directory")
    # The temporary name is not the target's with a suffix: that might be too long for a name.
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _is_device(path: Path) -> bool:
    """Whether the path is a pipe or a device such as /dev/null, which must not be replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    except ValueError as error:  # a NUL in the path
        raise OutputError(repr(str(path)), str(error)) from error
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
