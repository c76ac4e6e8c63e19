"""A recording holds everything that programs have done to files, in the order they did it."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from power.disk import Disk
from power.effects import Recording, Said, Synced, SyncedAll
from power.layout import lay_out, listing, listing_of
from power.recorder import NotUnderstood, Plan, record
from power.survival import EVERYTHING, what_is_left
from power.tracing import CALLS, why_impossible

pytestmark = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible())

PLACE = Path("place")

SHELL = """
echo one > a; echo two >> a; mkdir -p deep/er; mv a deep/er/b; ln deep/er/b c; ln -s c d
chmod 700 c; cp c e; rm c; mkdir gone; rmdir gone; : > there; touch -d 2020-01-01 e; truncate -s 3 e
( cd deep && echo sub > 'odd name' ) & wait; mv deep/er renamed; cat e > "$(printf 'n\\366')"
"""

PYTHON = """
import os, shutil, threading
from concurrent.futures import ThreadPoolExecutor
with open("w", "wb") as file:
    file.write(b"x" * 10_000); file.seek(5); file.write(b"middle"); file.truncate(9_000)
number = os.open("w", os.O_RDWR)
os.pwrite(number, b"at", 100); os.writev(number, [b"a", b"b"]); os.posix_fallocate(number, 0, 9_500)
os.ftruncate(number, 9_100); os.fsync(number); os.fdatasync(number); os.fchmod(number, 0o600)
shutil.copyfile("w", "copy"); os.link("copy", "again"); os.replace("copy", "again")
os.truncate("w", 3)
os.makedirs("x/y"); open("x/y/f", "x").close(); shutil.rmtree("x"); os.symlink("w", "to w")
with open("to w", "a") as file: file.write("by its link")
def one(i):
    for j in range(20):
        with open(f"t{i}.{j}", "w") as file: file.write(str(j)); os.fsync(file.fileno())
        os.rename(f"t{i}.{j}", f"t{i}")
with ThreadPoolExecutor(4) as threads: list(threads.map(one, range(4)))
number = os.open(".", os.O_RDONLY); os.fsync(number)
"""


def recorded(*commands: list[str], killed_at: str = "") -> Recording:
    PLACE.mkdir(exist_ok=True)
    told = str(Path("told").absolute())
    plan = Plan(str(PLACE.absolute()), (told,), tuple((tuple(c), killed_at) for c in commands))
    return record(plan, Path.cwd())


def what_remains(recording: Recording) -> object:
    disk = Disk()
    for effect in recording.effects:
        disk.apply(effect)
    return what_is_left(disk, EVERYTHING)


@pytest.mark.parametrize("command", [["sh", "-c", SHELL], [sys.executable, "-c", PYTHON]])
def test_what_was_recorded_makes_the_same_files_again(command):
    PLACE.mkdir()
    (PLACE / "before").write_text("was there")

    recording = recorded(command)

    tree = what_remains(recording)
    assert recording.codes == (0,)
    assert listing_of(tree) == listing(PLACE)
    assert len(listing(PLACE)) > 7
    Path("again").mkdir()
    lay_out(tree, Path("again"))
    assert listing(Path("again")) == listing(PLACE)


def test_syncs_are_recorded_where_they_happened():
    recording = recorded(["sh", "-c", "echo 1 > a; sync a; sync -d a; sync .; sync"])

    kinds = [type(e) for e in recording.effects if isinstance(e, Synced | SyncedAll)]
    assert kinds == [SyncedAll, Synced, Synced, Synced, SyncedAll]
    assert [e.data_only for e in recording.effects if isinstance(e, Synced)] == [False, True, False]


def test_what_is_said_is_recorded_between_what_is_done():
    recording = recorded(["sh", "-c", "echo a > a; echo done >> ../told; rm a"])

    names = [type(effect).__name__ for effect in recording.effects]
    assert names == ["SyncedAll", "Created", "Wrote", "Said", "Removed"]
    assert Said("told", "done\n") in recording.effects


def test_commands_are_recorded_one_after_the_other():
    recording = recorded(["sh", "-c", "echo a > a; exit 3"], ["rm", "a"])

    assert recording.codes == (3, 0)
    assert recording.ends == (3, 4)
    assert what_remains(recording) == {}


def test_a_command_can_be_killed_as_soon_as_something_has_a_name():
    recording = recorded(["sh", "-c", "echo 1 > a; mv a b; mv b c"], killed_at="b")

    assert list(listing(PLACE)) == ["b"]
    assert listing_of(what_remains(recording)) == listing(PLACE)


@pytest.mark.parametrize(
    "program",
    [
        "import mmap; f = open('f', 'w+b'); f.write(b'abc'); f.flush(); mmap.mmap(f.fileno(), 3)",
        "import os; os.mkfifo('pipe')",
        "import os; os.link('../outside', 'inside')",
        "import os; os.rename('../outside', 'inside')",
        "import os; os.open('.', os.O_TMPFILE | os.O_RDWR)",
    ],
)
def test_what_cannot_be_recorded_is_refused(program):
    Path("outside").write_text("not watched")

    with pytest.raises(NotUnderstood):
        recorded([sys.executable, "-c", program])


def test_a_program_that_is_followed_can_follow_no_other_and_says_so():
    asking = "import power.tracing as t; open('why', 'w').write(t.why_impossible())"

    recorded([sys.executable, "-c", asking])

    assert "cannot be followed here" in (PLACE / "why").read_text()


STRACE = shutil.which("strace")


@pytest.mark.skipif(not STRACE, reason="strace, the outside referee, is not installed")
@pytest.mark.parametrize("command", [["sh", "-c", SHELL], [sys.executable, "-c", PYTHON]])
def test_the_tracer_stops_at_the_calls_that_strace_sees(command):
    line = "from power.test_recorder import print_calls; print_calls()"
    for place in ("ours", "theirs"):
        Path(place).mkdir()
    tests = str(Path(__file__).parents[1])

    ours = subprocess.run(
        [sys.executable, "-c", line, *command],
        cwd="ours", env={"PYTHONPATH": tests, "PATH": "/usr/bin:/bin"}, capture_output=True,
        text=True,
    )  # fmt: skip
    words = ["strace", "-f", "-o", "../seen", "-e", "trace=?" + ",?".join(CALLS)]
    subprocess.run([*words, *command], cwd="theirs", check=True)

    seen = [line.split(maxsplit=1)[1] for line in Path("seen").read_text().splitlines()]
    theirs = Counter(call.partition("(")[0] for call in seen if "(" in call)
    for call in ("open", "openat", "mmap"):  # of these the tracer leaves most out
        theirs.pop(call, None)
    theirs = Counter({name: count for name, count in theirs.items() if name in CALLS})
    assert ours.stdout, ours.stderr
    assert Counter(eval(ours.stdout)) == theirs


def print_calls() -> None:
    """In a process of its own: trace a command, and print how often it made each call."""
    from power.tracing import Visitor, trace

    counts = Counter[str]()

    class Counting(Visitor):
        def concerns(self, call):
            counts[call.name] += call.name not in ("open", "openat", "mmap")
            return False

    trace(sys.argv[1:], Counting())
    print(dict(+counts))
