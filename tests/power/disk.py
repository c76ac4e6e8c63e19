"""A disk as it was told to be, and what of that is safe; a power cut may take any of the rest.

Safe is what the standard promises, whatever a real file system adds: the content of a file that was
synced, and the names in a directory that was synced itself. A rename happens as a whole or not at
all, also between two directories. All else may survive or not, each for itself: names, modes, and
of a content any part, or zeros in its place. Times of files always survive, so that a file which
lost its content looks as it did before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from power.effects import (
    ROOT,
    Changed,
    Created,
    Effect,
    Linked,
    Removed,
    Renamed,
    Resized,
    Said,
    Synced,
    SyncedAll,
    Wrote,
)

Data = Wrote | Resized


@dataclass(eq=False)
class Naming:
    """A change to the names in a directory: ``added`` now stands for ``item``, ``removed`` is gone.

    A rename between directories is two of these. ``twin`` is the one that adds the new name, on
    which the one that removes the old name depends.
    """

    added: str = ""
    item: int = -1
    removed: str = ""
    twin: "Naming | None" = None
    is_due: bool = False  # its other half is safe, so it is too


@dataclass(eq=False)
class Item:
    kind: str
    mode: int
    inode: int
    target: str = ""
    modified_ns: int = 0
    safe_mode: int = 0
    safe_content: bytes = b""
    unsafe_data: list[Data] = field(default_factory=list)
    safe_names: dict[str, int] = field(default_factory=dict)
    unsafe_names: list[Naming] = field(default_factory=list)

    def content(self) -> bytes:
        """What a program reads from the file now."""
        return with_data(self.safe_content, self.unsafe_data)

    def names(self) -> dict[str, int]:
        return with_names(self.safe_names, self.unsafe_names)


class Disk:
    """Tell it the effects one by one; what it is like after each is what a power cut finds."""

    def __init__(self) -> None:
        self.items = {ROOT: Item("directory", 0o755, 0, safe_mode=0o755)}
        self.version = 0  # grows with each effect that changes what may survive
        self._dirty: set[int] = set()

    def apply(self, effect: Effect) -> None:
        self.version += not isinstance(effect, Said)
        match effect:
            case Created(item, directory, name, kind, mode, inode, target):
                self.items[item] = Item(kind, mode, inode, target, safe_mode=mode)
                self._name(directory, Naming(name, item))
            case Linked(item, directory, name):
                self._name(directory, Naming(name, item))
            case Removed(directory, name):
                self._name(directory, Naming(removed=name))
            case Renamed():
                self._rename(effect)
            case Wrote(item) | Resized(item):
                self.items[item].unsafe_data.append(effect)
                self.items[item].modified_ns = effect.modified_ns
                self._dirty.add(item)
            case Changed(item, mode, modified_ns):
                self.items[item].mode, self.items[item].modified_ns = mode, modified_ns
                self._dirty.add(item)
            case Synced(item, data_only):
                self._sync(item, data_only=data_only)
            case SyncedAll():
                for item in sorted(self._dirty):
                    self._sync(item)

    def _name(self, directory: int, naming: Naming) -> None:
        self.items[directory].unsafe_names.append(naming)
        self._dirty.add(directory)

    def _rename(self, effect: Renamed) -> None:
        item = self.items[effect.directory].names()[effect.name]
        if effect.directory == effect.to_directory:
            self._name(effect.directory, Naming(effect.to_name, item, effect.name))
            return
        adds = Naming(effect.to_name, item)
        self._name(effect.to_directory, adds)
        self._name(effect.directory, Naming(removed=effect.name, twin=adds))

    def _sync(self, number: int, *, data_only: bool = False) -> None:
        item = self.items[number]
        item.safe_content, item.unsafe_data = item.content(), []
        for naming in item.unsafe_names:
            if naming.twin is not None:
                naming.twin.is_due = True
        item.safe_names, item.unsafe_names = item.names(), []
        if not data_only:
            item.safe_mode = item.mode
            self._dirty.discard(number)


def with_data(content: bytes, data: Sequence[Data]) -> bytes:
    if not data:
        return content
    result = bytearray(content)
    for change in data:
        if isinstance(change, Resized):
            _resize(result, change.size_bytes)
        else:
            end = change.offset + len(change.content)
            _resize(result, max(len(result), end))
            result[change.offset : end] = change.content
    return bytes(result)


def _resize(content: bytearray, size_bytes: int) -> None:
    del content[size_bytes:]
    content.extend(bytes(size_bytes - len(content)))


def with_names(names: dict[str, int], namings: Sequence[Naming]) -> dict[str, int]:
    """The names after these changes; one whose old name is not there does not happen."""
    result = dict(names)
    for naming in namings:
        if naming.removed and naming.added:
            if result.get(naming.removed) == naming.item:
                del result[naming.removed]
                result[naming.added] = naming.item
        elif naming.removed:
            result.pop(naming.removed, None)
        else:
            result[naming.added] = naming.item
    return result


@dataclass(frozen=True, slots=True)
class Left:
    """A file, directory or link that is there after a power cut, under one of its names."""

    item: int
    kind: str
    mode: int
    content: bytes
    target: str
    modified_ns: int
    inode: int  # that it had before the cut


Tree = dict[str, Left]
"""All that is left, by path, with each directory before what is in it."""


def tree_of(
    disk: Disk, names: dict[int, dict[str, int]], contents: dict[int, bytes], modes: dict[int, int]
) -> Tree:
    """The files that can still be found from the root. A directory is in one place only."""
    seen = set[int]()

    def below(directory: int, prefix: str) -> Iterator[tuple[str, Left]]:
        for name, number in sorted(names[directory].items()):
            item = disk.items[number]
            if item.kind == "directory" and number in seen:
                continue
            seen.add(number)
            content = contents.get(number, b"")
            yield (
                prefix + name,
                Left(
                    number, item.kind, modes[number], content, item.target, item.modified_ns,
                    item.inode,
                ),
            )  # fmt: skip
            if item.kind == "directory":
                yield from below(number, f"{prefix}{name}/")

    return dict(below(ROOT, ""))
