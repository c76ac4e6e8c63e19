"""Draws the rooms of the package and who imports whom: ``python docs/rooms.py`` writes rooms.svg.

An arrow leads from a room to a room that it imports. Arrows that follow from others are left out:
where A imports B and B imports C, an arrow from A to C would say little.
"""

import ast
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "dataward"

# Where each room is drawn: column, row, and how many columns wide. Every arrow leads down.
PLACES = {
    "cli": (3.0, 0, 1),
    "reproduce": (2.0, 1, 1),
    "api": (3.0, 2, 1),
    "formats": (0.0, 4, 1),
    "generate": (1.0, 3, 1),
    "reports": (1.9, 4, 1),
    "runs": (3.0, 3, 1),
    "calls": (4.0, 3, 1),
    "cluster": (4.2, 2, 1),
    "sim": (5.0, 4, 1),
    "live": (3.1, 4, 1),
    "strategies": (3.2, 5, 1),
    "node": (3.2, 6, 1),
    "stores": (4.7, 6, 1),
    "deadlines": (2.0, 7, 1),
    "plan": (2.8, 8, 1),
    "world": (4.0, 7, 1),
    "model": (1.65, 9, 4.3),
    "kernel": (4.6, 9, 1),
}
COLUMN, ROW, BOX_WIDTH, BOX_HEIGHT, MARGIN = 138, 92, 118, 50, 20


def room_of(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports anything from."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            rooms |= {room_of(a.name) for a in node.names if a.name.startswith("dataward")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is meant"
            if node.module == "dataward":
                rooms |= {a.name for a in node.names if a.name != "__version__"}
            elif node.module and node.module.startswith("dataward."):
                rooms.add(room_of(node.module))
    return rooms


def files_by_room() -> dict[str, list[Path]]:
    """Every source file by room; a file beside the rooms is a room of its own."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        found.setdefault(room, []).append(path)
    return found


def imports_between() -> dict[str, set[str]]:
    rooms = files_by_room()
    return {
        room: {r for path in rooms[room] for r in imported_rooms(path)} & PLACES.keys() - {room}
        for room in PLACES
    }


def without_shortcuts(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports that do not follow from others."""

    def below(room: str) -> set[str]:
        return {r for direct in imports[room] for r in {direct, *below(direct)}}

    return {
        room: {r for r in direct if all(r not in below(other) for other in direct - {r})}
        for room, direct in imports.items()
    }


def middle(room: str) -> tuple[float, float]:
    column, row, _ = PLACES[room]
    return MARGIN + BOX_WIDTH / 2 + column * COLUMN, MARGIN + BOX_HEIGHT / 2 + row * ROW


def width(room: str) -> float:
    return BOX_WIDTH + (PLACES[room][2] - 1) * COLUMN


def arrow(room: str, other: str) -> str:
    """From the bottom of a room's box to the top of another's, straight down if that is wide."""
    (x1, y1), (x2, y2) = middle(room), middle(other)
    reach = width(other) / 2 - BOX_WIDTH / 4
    x2 = min(max(x1, x2 - reach), x2 + reach) if width(other) > BOX_WIDTH else x2
    return (
        f'<line x1="{x1:g}" y1="{y1 + BOX_HEIGHT / 2:g}" x2="{x2:g}" '
        f'y2="{y2 - BOX_HEIGHT / 2:g}" stroke="#667" marker-end="url(#tip)"/>'
    )


def box(room: str, files: int) -> list[str]:
    (x, y), count = middle(room), f"{files} files" if files > 1 else "1 file"
    return [
        f'<rect x="{x - width(room) / 2:g}" y="{y - BOX_HEIGHT / 2:g}" width="{width(room):g}" '
        f'height="{BOX_HEIGHT}" rx="6" fill="#eef3f8" stroke="#567"/>',
        f'<text x="{x:g}" y="{y - 3:g}" text-anchor="middle" font-weight="bold">{room}</text>',
        f'<text x="{x:g}" y="{y + 15:g}" text-anchor="middle" font-size="12" '
        f'fill="#456">{count}</text>',
    ]


def drawn() -> str:
    """The picture, as SVG."""
    wide = 2 * MARGIN + BOX_WIDTH + max(column for column, _, _ in PLACES.values()) * COLUMN
    high = 2 * MARGIN + BOX_HEIGHT + max(row for _, row, _ in PLACES.values()) * ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" '
        'font-family="sans-serif" font-size="15">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="#667"/></marker></defs>',
        f'<rect width="{wide:g}" height="{high:g}" fill="white"/>',
    ]
    imports, files = without_shortcuts(imports_between()), files_by_room()
    lines += [arrow(room, other) for room in PLACES for other in sorted(imports[room])]
    for room in PLACES:
        lines += box(room, len([path for path in files[room] if path.name != "__init__.py"]))
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    (HERE / "rooms.svg").write_text(drawn(), encoding="utf-8")
