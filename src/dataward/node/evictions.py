"""The files that have gone from a node's depot and that keepers have not been told of."""

from collections.abc import Iterable

from dataward.model.workflow import FileId


class Evictions:
    """A depot tells it which files come and go; what has come back is not listed."""

    def __init__(self) -> None:
        self._gone: dict[FileId, None] = {}

    def came(self, file: FileId) -> None:
        self._gone.pop(file, None)

    def went(self, file: FileId) -> None:
        self._gone[file] = None

    def files(self) -> tuple[FileId, ...]:
        """What is gone, in the order in which it went."""
        return tuple(self._gone)

    def forget(self, files: Iterable[FileId]) -> None:
        """A keeper has been told of these."""
        for file in files:
            self._gone.pop(file, None)
