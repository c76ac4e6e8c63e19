"""Finds the format of a workflow file from the start of its content; its name does not matter."""

import re
from enum import Enum

from dataward.errors import FormatError
from dataward.formats.content import GZIP_MAGIC

HEAD_BYTES = 1 << 16


class Format(Enum):
    WFFORMAT = "WfFormat JSON"
    DAX = "Pegasus DAX XML"
    PEGASUS_YAML = "Pegasus 5 YAML"


_KNOWN = "dataward reads WfFormat JSON, Pegasus DAX (XML) and Pegasus 5 workflows (YAML)"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_XML = (b"\xff\xfe<\x00", b"\xfe\xff\x00<")
_YAML_START = re.compile(
    rb"(?:\s*(?:\#[^\n]*)?\n)*(?:%YAML|---|[\"']?[A-Za-z_$][\w.$-]*[\"']?[ \t]*:(?:\s|$))"
)


def detect(head: bytes, source: str) -> Format:
    """The format of a file that starts with these bytes."""
    if head.startswith(_UTF16_XML):
        return Format.DAX
    start = head.removeprefix(_UTF8_MARK).lstrip()
    if not start:
        problem = "holds nothing but white space" if head else "is empty"
        raise FormatError(source, problem, remedy=_KNOWN)
    if start.startswith(b"{"):
        return Format.WFFORMAT
    if start.startswith(b"<"):
        return Format.DAX
    if start.startswith(GZIP_MAGIC):
        raise FormatError(source, "is compressed twice", remedy="unpack it once")
    if b"\0" not in head and _YAML_START.match(start):
        return Format.PEGASUS_YAML
    raise FormatError(source, "is not a workflow file", remedy=_KNOWN)
