"""Keeps what has been measured in a file, so that an interrupted sweep goes on where it was."""

from functools import cache
from hashlib import blake2b
from pathlib import Path

import msgspec

from dataward.errors import OutputError
from dataward.reproduce.cells import Cell, Numbers, Study, Value

CellKey = tuple[str, tuple[tuple[str, Value], ...], str]


class KeptCell(msgspec.Struct, frozen=True):
    """One line of the file. ``digest`` is that of the settings that the numbers depend on."""

    study: str
    values: dict[str, str | int | float]
    digest: str
    numbers: dict[str, float | list[float]]
    seconds: float


def digest_of_settings(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


@cache  # a platform of a thousand nodes is a long text
def key_of(study: Study, cell: Cell) -> CellKey:
    digest = digest_of_settings(study.settings(cell.as_dict()))
    return study.name, tuple(sorted(cell.values)), digest


class CellFile:
    """A file with one measured cell in each line; a line that was cut off does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: dict[CellKey, KeptCell] = {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            kept = msgspec.json.decode(line, type=KeptCell)
        except msgspec.DecodeError:  # the process was killed while it wrote this line
            return
        self._kept[kept.study, tuple(sorted(kept.values.items())), kept.digest] = kept

    def get(self, key: CellKey) -> Numbers | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.numbers

    def add(self, key: CellKey, numbers: Numbers, seconds: float) -> None:
        """Append a cell, so that it is in the file when this returns."""
        study, values, digest = key
        plain = {n: v if isinstance(v, int | float) else list(v) for n, v in numbers.items()}
        kept = KeptCell(study, dict(values), digest, plain, round(seconds, 3))
        self._kept[key] = kept
        try:
            with self.path.open("ab") as file:
                if file.tell() and not self._ends_with_newline():
                    file.write(b"\n")
                file.write(msgspec.json.encode(kept) + b"\n")
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"
