"""Where files are planned to be, and which of their places to look at where there are many."""

from collections.abc import Sequence

from dataward.model.workflow import Workflow
from dataward.plan.costs import Located
from dataward.plan.firsts import FirstsByGroup

FEW = 8  # so many copies of a file are all looked at


class SharedPlace:
    """The nodes that have some files, which have always been together, and since when.

    Where there are more than `FEW`, heaps tell which of them can send first or run tasks first.
    """

    __slots__ = ("at", "files", "free", "outside", "senders")

    def __init__(self, at: dict[int, float], files: int, *, outside: bool) -> None:
        self.at = at
        self.files = files  # so many are here
        self.outside = outside  # the origin has them too
        self.senders: FirstsByGroup | None = None
        self.free: dict[int, FirstsByGroup] = {}  # by width of tasks


class Places:
    """The place of every file. Files that part company get a place of their own.

    Adding a copy to a place costs O(log copies) for each heap. Where some of the files of a place
    part from others, the copies are counted anew; as each of them was a transfer of each file, this
    costs no more than planning the transfers did.
    """

    def __init__(self, workflow: Workflow, located: Located) -> None:
        unmade = SharedPlace({}, 0, outside=False)
        outside: dict[tuple[int, ...], SharedPlace] = {}
        self.of: list[SharedPlace] = []
        for file, writers in enumerate(workflow.producers.degrees().tolist()):
            place = unmade
            if not writers:
                holders = tuple(located.get(file, ()))
                place = outside.get(holders) or outside.setdefault(
                    holders, SharedPlace(dict.fromkeys(holders, 0.0), 0, outside=True)
                )
            place.files += 1
            self.of.append(place)

    def together(self, files: Sequence[int]) -> dict[SharedPlace, list[int]]:
        """These files by their places, without files that are nowhere yet."""
        found: dict[SharedPlace, list[int]] = {}
        of = self.of
        for file in files:
            place = of[file]
            if place in found:
                found[place].append(file)
            elif place.at or place.outside:
                found[place] = [file]
        return found

    def add_made(self, files: Sequence[int], node: int, since: float) -> None:
        """A task on this node has written these files."""
        made = SharedPlace({node: since}, 0, outside=False)
        for file in files:
            old = self.of[file]
            old.files -= 1
            if old.at:  # A file with two writers is wherever one of them has run.
                self.of[file] = SharedPlace({**old.at, node: since}, 1, outside=False)
            else:
                self.of[file] = made
                made.files += 1

    def part(self, place: SharedPlace, files: Sequence[int]) -> SharedPlace:
        """The place of these files alone: the same, if there are no others."""
        if len(files) == place.files:
            return place
        apart = SharedPlace(place.at.copy(), len(files), outside=place.outside)
        place.files -= len(files)
        for file in files:
            self.of[file] = apart
        return apart
