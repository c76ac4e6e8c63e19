"""Every command that the help pages, the README and the page about clusters tell people to type."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from dataward.cli import commands
from dataward.cli.commands import COMMANDS
from dataward.cli.parameters import parameters_of

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/cluster.md")
_INLINE = re.compile(r"`(dataward [^`]+)`")

# What cannot be run here, and why; README and docs say the same of those that nobody tried.
CANNOT = {
    "dataward run blast.json --wrap 'apptainer exec /images/blast.sif {command}'": "Apptainer",
    "dataward reproduce all": "hours; test_reproduce.py has a part of it",
    "dataward reproduce all -o reproduction": "hours; test_reproduce.py has a part of it",
    "dataward reproduce worker --quick": "minutes; test_reproduce.py has a part of it",
    "dataward reproduce adage-3,adage-5 -o figures": "an hour; test_reproduce.py has a part of it",
    "dataward bound": "131 million tasks; test_bound.py has fewer",
    "dataward seeds --exhaustive": "minutes; test_exhaustive.py has one small world",
    "dataward seeds --exhaustive --strategy dataward --minutes 30": "half an hour; as above",
}
ELSEWHERE = ("ssh $host", "--depot /scratch/dataward", "#SBATCH", "srun sh -c")  # ssh and Slurm

# What would take minutes is run with smaller numbers: the same words otherwise.
SMALLER = {
    "--nodes 1000000 --minutes 10": "--nodes 500 --minutes 1",
    "--nodes 10000 --priority": "--nodes 50 --priority",
    "--nodes 1000 --minutes 60 --after 60": "--nodes 100 --minutes 6 --after 6",
    "seeds -n 10000": "seeds -n 2",
    "seeds -n 1000": "seeds -n 2",
    "seeds -n 100 --strategy all": "seeds -n 1 --strategy all",
    "--tasks 300 --runnable": "--tasks 30 --runnable",
    "montage --tasks 1000": "montage --tasks 60",
    "--strategy all": "--strategy adage,dataward",
    "dataward bound --cores 64": "dataward bound --cores 8",
}


def in_help(name: str) -> list[str]:
    """The examples in a command's help."""
    return re.findall(r"^ +- `(dataward [^`]+)`$", function_of(name).__doc__ or "", re.M)


def function_of(name: str) -> Callable[..., None]:
    place = name.replace(" ", "_")
    function: Callable[..., None] = getattr(
        import_module(f"dataward.cli.{place}"), f"{place}_command"
    )
    return function


def in_first_help() -> list[str]:
    """The examples in the help of dataward itself."""
    return re.findall(r"^- `(dataward [^`]+)`$", commands.ABOUT, re.M)


def in_all_help() -> list[str]:
    return [*in_first_help(), *(line for name in COMMANDS for line in in_help(name))]


def on_page(name: str) -> list[str]:
    """The commands on a page: lines between fences, and what is set as code in its text."""
    fenced, text, language = [], "", None
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language is None:
            text += line + " "
        elif not language:
            fenced.append(line)
    found = []
    for line in [*fenced, *filter(_is_whole, _INLINE.findall(text))]:
        for part in re.sub(r"  +#.*", "", line).split(" && "):
            if "dataward " in part and part.strip() not in found:
                found.append(part.strip())
    return found


def _is_whole(line: str) -> bool:
    """Whether this can be typed, and does not only name a command that needs more words."""
    name = line.removeprefix("dataward ")
    return name not in COMMANDS or not any(p.is_required for p in parameters_of(function_of(name)))


def python_on_page(name: str) -> list[str]:
    """The blocks of Python on a page."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
