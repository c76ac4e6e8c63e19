"""Holds every import to the table of rooms: each room imports only those named for it."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dataward"

BELOW_LIVE = {
    "model",
    "formats",
    "generate",
    "plan",
    "deadlines",
    "kernel",
    "world",
    "node",
    "strategies",
    "stores",
}
MAY_IMPORT = {
    "errors": set(),
    "model": set(),
    "formats": {"model"},
    "generate": {"model"},
    "plan": {"model"},
    "deadlines": {"model", "plan"},
    "kernel": set(),
    "world": {"model", "kernel"},
    "node": {"model", "plan", "deadlines", "world"},
    "strategies": {"model", "plan", "deadlines", "node"},
    "stores": {"model", "world"},
    "live": BELOW_LIVE,
    "sim": BELOW_LIVE,
    "runs": BELOW_LIVE | {"live", "sim", "reports"},
    "calls": BELOW_LIVE | {"live"},
    "cluster": BELOW_LIVE | {"live", "runs", "calls", "reports"},
    "reports": {"model"},
    "web": {"model", "world", "reports"},
    "api": BELOW_LIVE | {"live", "sim", "runs", "reports"},
    "reproduce": BELOW_LIVE | {"sim", "reports", "api"},
    "cli": BELOW_LIVE
    | {"live", "sim", "runs", "calls", "cluster", "reports", "web", "api", "reproduce"},
}


# What is imported as `dataward`, and what `python -m dataward` runs.
BESIDE_ROOMS = {"__init__", "__main__"}


def load_rooms() -> ModuleType:
    """The script that draws the rooms, which knows how to read their imports."""
    spec = spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rooms = load_rooms()


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        found.append((parts[0].removesuffix(".py"), path))
    return found


@pytest.mark.parametrize(
    ("room", "path"), modules(), ids=lambda v: v.name if isinstance(v, Path) else v
)
def test_a_room_imports_only_the_rooms_named_for_it(room: str, path: Path) -> None:
    if room in BESIDE_ROOMS:
        return

    allowed = MAY_IMPORT[room] | {room, "errors"}

    assert rooms.imported_rooms(path) <= allowed


def test_every_room_is_in_the_picture_and_every_arrow_leads_down() -> None:
    imports = rooms.imports_between()

    assert rooms.files_by_room().keys() - rooms.PLACES.keys() == {*BESIDE_ROOMS, "errors"}
    for room, below in imports.items():
        assert all(rooms.PLACES[room][1] < rooms.PLACES[other][1] for other in below)


def test_the_picture_of_the_rooms_is_what_the_script_draws() -> None:
    assert (ROOT / "docs" / "rooms.svg").read_text(encoding="utf-8") == rooms.drawn(), (
        "the rooms have changed: python docs/rooms.py draws them anew"
    )
