"""Holds every import to the table of rooms: each room imports only those named for it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "dataward"

BELOW_LIVE = {
    "model",
    "formats",
    "generate",
    "plan",
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
    "kernel": set(),
    "world": {"model", "kernel"},
    "node": {"model", "plan", "world"},
    "strategies": {"model", "plan", "node"},
    "stores": {"model", "world"},
    "live": BELOW_LIVE,
    "sim": BELOW_LIVE,
    "runs": BELOW_LIVE | {"live", "sim"},
    "calls": BELOW_LIVE | {"live"},
    "cluster": BELOW_LIVE | {"live", "runs", "calls"},
    "reports": {"model"},
    "web": {"model", "world", "reports"},
    "cli": BELOW_LIVE | {"live", "sim", "runs", "calls", "cluster", "reports", "web"},
}


def room_of(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            rooms |= {room_of(a.name) for a in node.names if a.name.startswith("dataward")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is meant"
            if node.module == "dataward":
                rooms |= {a.name for a in node.names}
            elif node.module and node.module.startswith("dataward."):
                rooms.add(room_of(node.module))
    return rooms


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
    if room == "__init__":
        return

    allowed = MAY_IMPORT[room] | {room, "errors"}

    assert imported_rooms(path) <= allowed
