"""Reads YAML event by event: only text, lists and mappings, without tags or aliases.

PyYAML's own composer recurses as deep as the document and follows aliases, so ten lines can expand
to gigabytes; here memory grows only with the text. Every node knows its line.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from dataward.errors import FormatError

DEPTH_MAX = 64  # a Pegasus workflow needs eight levels

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A piece of YAML: text, a list of nodes, or nodes by key."""

    line: int
    value: "str | list[YamlNode] | dict[str, YamlNode]"


class YamlEvents:
    """Walks through a document; the caller decides what to keep."""

    def __init__(self, chunks: Iterator[bytes], source: str) -> None:
        self.source = source
        self._loader = _Loader(_Stream(chunks))
        self._depth = 0
        self._event: yaml.Event = self._pull()

    @property
    def line(self) -> int:
        mark = self._event.start_mark
        return mark.line + 1 if mark else 0

    def error(self, problem: str, line: int | None = None) -> FormatError:
        return FormatError(self.source, problem, place=f"line {line or self.line}")

    def _pull(self) -> yaml.Event:
        try:
            event: yaml.Event = self._loader.get_event()
            return event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"line {mark.line + 1}" if mark else ""
            problem = f"is not valid YAML ({error.problem or error.context})"
            raise FormatError(self.source, problem, place=place) from error
        except (yaml.YAMLError, UnicodeError, ValueError) as error:
            raise FormatError(self.source, "is not valid YAML text in UTF-8") from error

    def _take(self) -> yaml.Event:
        event = self._event
        if isinstance(event, yaml.ScalarEvent) and event.anchor is None:
            self._event = self._pull()  # a short cut: most events are scalars without an anchor
            return event
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self.error("uses YAML anchors or aliases, which are not allowed in workflows")
        if isinstance(event, yaml.CollectionStartEvent):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise self.error("is nested too deeply for a workflow")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._depth -= 1
        if not isinstance(event, yaml.StreamEndEvent):
            self._event = self._pull()
        return event

    def open_document(self) -> None:
        """Move to the root node."""
        while isinstance(self._event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            self._take()

    def close_document(self) -> None:
        """Raise FormatError if another document follows."""
        while isinstance(self._event, yaml.DocumentEndEvent):
            self._take()
        if not isinstance(self._event, yaml.StreamEndEvent):
            raise self.error("holds a second YAML document; a workflow file has only one")

    def keys(self, what: str) -> Iterator[str]:
        """The keys of the next mapping; the caller must consume the value after each key."""
        if not isinstance(self._event, yaml.MappingStartEvent):
            raise self.error(f"{what} should be a mapping")
        self._take()
        seen: set[str] = set()
        while not isinstance(self._event, yaml.MappingEndEvent):
            if not isinstance(self._event, yaml.ScalarEvent):
                raise self.error(f"{what} has a key that is not plain text")
            key = str(self._event.value)
            if key in seen:
                raise self.error(f"{what} has the key {key[:40]!r} twice")
            seen.add(key)
            self._take()
            yield key
        self._take()

    def items(self, what: str) -> Iterator[YamlNode]:
        """The elements of the next list, each read in full; a null gives no elements."""
        if isinstance(self._event, yaml.ScalarEvent) and self._event.value in ("", "null", "~"):
            self._take()
            return
        if not isinstance(self._event, yaml.SequenceStartEvent):
            raise self.error(f"{what} should be a list")
        self._take()
        while not isinstance(self._event, yaml.SequenceEndEvent):
            yield self.node()
        self._take()

    def node(self) -> YamlNode:
        """The next node, read in full. Recursion is bounded by DEPTH_MAX."""
        line = self.line
        if isinstance(self._event, yaml.ScalarEvent):
            text = str(self._event.value)
            self._take()
            return YamlNode(line, text)
        if isinstance(self._event, yaml.SequenceStartEvent):
            return YamlNode(line, list(self.items("a list")))
        if isinstance(self._event, yaml.MappingStartEvent):
            return YamlNode(line, {key: self.node() for key in self.keys("a mapping")})
        self._take()
        raise self.error("is not a workflow: it ends early")

    def skip(self) -> None:
        """Skip the next node."""
        depth = self._depth
        self._take()
        while self._depth > depth:
            self._take()


class _Stream:
    """Chunks as the file-like object that PyYAML reads from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            self._left = next(self._chunks, b"")
        if size < 0 or size >= len(self._left):
            out, self._left = self._left, b""
        else:
            out, self._left = self._left[:size], self._left[size:]
        return out
