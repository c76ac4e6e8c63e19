"""Decodes a large JSON document piece by piece; errors name the path in the whole document.

A piece is a ``msgspec.Raw``: a window on the document's bytes. Only one element at a time becomes
Python objects, so a million tasks need little more memory than their text.
"""

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from dataward.errors import FormatError

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview | msgspec.Raw

_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_WITH_PATH = re.compile(r"(?P<problem>.*) - at `\$(?P<path>.*)`", re.DOTALL)
_WITH_BYTE = re.compile(r"JSON is malformed: (?P<problem>.*) \(byte (?P<byte>\d+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Decodes the pieces of one document; ``source`` is its name in errors."""

    source: str

    def whole(self, decoder: "msgspec.json.Decoder[T]", data: bytearray) -> T:
        """The document's outermost layer, decoded. The syntax of the whole document is checked."""
        mark = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        try:
            return decoder.decode(memoryview(data)[mark:])
        except msgspec.DecodeError as error:
            if match := _WITH_BYTE.fullmatch(str(error)):
                line = data.count(b"\n", 0, mark + int(match["byte"])) + 1
                problem = f"is not valid JSON ({match['problem']})"
                raise FormatError(self.source, problem, place=f"line {line}") from error
            if str(error) == "Input data was truncated":
                raise FormatError(self.source, "is JSON that ends early") from error
            raise self.error(error, "$") from error
        except UnicodeDecodeError as error:
            raise FormatError(self.source, "is not UTF-8 text") from error

    def piece(self, decoder: "msgspec.json.Decoder[T]", raw: msgspec.Raw, place: str) -> T:
        """One piece, decoded; ``place`` is its path for errors, such as ``$.workflow``."""
        try:
            return decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.error(error, place) from error

    def elements(self, raw: msgspec.Raw, place: str) -> list[msgspec.Raw]:
        """A list's elements, not yet decoded; none if the list is missing."""
        return self.piece(_list_decoder, raw, place) if given(raw) else []

    def error(self, error: Exception, place: str) -> FormatError:
        problem = str(error)
        if match := _WITH_PATH.fullmatch(problem):
            problem, place = match["problem"], place + match["path"]
        elif isinstance(error, UnicodeDecodeError):
            problem = "holds text that is not UTF-8"
        elif problem == "Input data was truncated":  # msgspec's message for half a surrogate pair
            problem = "holds half of a \\ud800-style character pair"
        return FormatError(self.source, problem[:1].lower() + problem[1:], place=place)


def given(raw: msgspec.Raw) -> bool:
    """Whether an optional piece is present and not null."""
    start = bytes(memoryview(raw)[:5])
    return start not in (b"", b"null")
