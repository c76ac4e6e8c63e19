"""Reads workflow files into a ``Workflow`` and writes them; no other room knows a file format."""

from dataward.formats.content import ReadLimits
from dataward.formats.read import parse_workflow, read_workflow
from dataward.formats.wfformat_write import render
from dataward.formats.write import write_workflow

__all__ = ["ReadLimits", "parse_workflow", "read_workflow", "render", "write_workflow"]
