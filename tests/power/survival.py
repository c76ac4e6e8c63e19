"""What of the unsafe survives a power cut: all, nothing, or a part that is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from power.disk import (
    Data,
    Disk,
    Item,
    Naming,
    Resized,
    Tree,
    Wrote,
    tree_of,
    with_data,
    with_names,
)

PAGE_BYTES = 4096

NAMES = ("none", "all", "first", "some")
CONTENTS = ("none", "all", "zeros", "first", "pages")


@dataclass(frozen=True)
class Survival:
    """How much survives: of each directory's names, and of each file's content and mode.

    Each is one of `NAMES` and of `CONTENTS`; if there are several, one is drawn each time.
    """

    names: Sequence[str]
    contents: Sequence[str]
    modes: Sequence[str] = ("old", "new")
    seed: int = 0

    def __str__(self) -> str:
        words = ["|".join(part) for part in (self.names, self.contents, self.modes)]
        return f"names {words[0]}, contents {words[1]}, modes {words[2]}, seed {self.seed}"


NOTHING = Survival(["none"], ["none"], ["old"])
EVERYTHING = Survival(["all"], ["all"], ["new"])
EMPTY_FILES = Survival(["all"], ["none"], ["new"])  # as of old, after a rename without a sync
ZEROS = Survival(["all"], ["zeros"], ["new"])
EXTREMES = (NOTHING, EVERYTHING, EMPTY_FILES, ZEROS)


def drawn(seed: int) -> Survival:
    return Survival(NAMES, CONTENTS, seed=seed)


def what_is_left(disk: Disk, survival: Survival) -> Tree:
    """The files as they are when the power is back."""
    random = Random(survival.seed)
    kept = {
        number: _kept_namings(item.unsafe_names, random.choice(survival.names), random)
        for number, item in disk.items.items()
        if item.kind == "directory"
    }
    happened = {id(naming) for namings in kept.values() for naming in namings}
    unsafe = {id(n) for item in disk.items.values() for n in item.unsafe_names}
    names = {}
    for number, namings in kept.items():
        possible = [
            naming
            for naming in namings
            if naming.twin is None or id(naming.twin) in happened or id(naming.twin) not in unsafe
        ]
        names[number] = with_names(disk.items[number].safe_names, possible)
    contents = {
        number: _kept_content(item, random.choice(survival.contents), random)
        for number, item in disk.items.items()
        if item.kind == "file"
    }
    modes = {
        number: item.mode if random.choice(survival.modes) == "new" else item.safe_mode
        for number, item in disk.items.items()
    }
    return tree_of(disk, names, contents, modes)


def _kept_namings(namings: Sequence[Naming], how: str, random: Random) -> list[Naming]:
    if how == "all" or not namings:
        return list(namings)
    if how == "first":
        count = random.randint(0, len(namings))
        return [n for place, n in enumerate(namings) if place < count or n.is_due]
    return [n for n in namings if n.is_due or (how == "some" and random.random() < 0.5)]


def _kept_content(item: Item, how: str, random: Random) -> bytes:
    data = item.unsafe_data
    if how == "none" or not data:
        return item.safe_content
    if how == "all":
        return item.content()
    if how == "zeros":
        return with_data(item.safe_content, [_as_zeros(change) for change in data])
    if how == "first":
        *whole, last = data[: random.randint(1, len(data))]
        return with_data(item.safe_content, [*whole, *_torn(last, random)])
    pages = [page for change in data for page in _pages(change) if random.random() < 0.5]
    return with_data(item.safe_content, pages)


def _as_zeros(change: Data) -> Data:
    if isinstance(change, Resized):
        return change
    return Wrote(change.item, change.offset, bytes(len(change.content)), change.modified_ns)


def _torn(change: Data, random: Random) -> list[Data]:
    if isinstance(change, Resized):
        return [change] if random.random() < 0.5 else []
    content = change.content[: random.randint(0, len(change.content))]
    return [Wrote(change.item, change.offset, content, change.modified_ns)]


def _pages(change: Data) -> list[Data]:
    if isinstance(change, Resized):
        return [change]
    return [
        Wrote(
            change.item,
            change.offset + start,
            change.content[start : start + PAGE_BYTES],
            change.modified_ns,
        )
        for start in range(0, len(change.content), PAGE_BYTES)
    ]
