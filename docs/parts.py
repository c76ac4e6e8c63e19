"""Writes the table of parts into strategies.md: every strategy as one row.

Run it after a strategy has come or changed: `python docs/parts.py`. A test compares.
"""

from pathlib import Path

from dataward.strategies.choosing import parts_of
from dataward.strategies.registry import STRATEGIES

PAGE = Path(__file__).parent / "strategies.md"
BEGIN, END = "<!-- parts -->\n", "<!-- end of parts -->\n"


def table() -> str:
    """The table in Markdown."""
    rows = {name: parts_of(strategy) for name, strategy in STRATEGIES.items()}
    headings = list(next(iter(rows.values())))
    lines = [f"| strategy | {' | '.join(headings)} |", "|---" * (len(headings) + 1) + "|"]
    lines += [f"| `{name}` | {' | '.join(parts.values())} |" for name, parts in rows.items()]
    return "\n".join(lines) + "\n"


def page_with_table(page: str) -> str:
    """The page, with the table as it is now."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
