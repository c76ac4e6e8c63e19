"""Runs the benches, one after the other.

    python -m bench                 all of them
    python -m bench scale kernel    only these
    python -m bench --quick         smaller sizes, where a bench has them
    python -m bench mutants --help  the options of a bench that has its own

A bench is a module of this package with a ``run(out)``, which may take ``quick`` as well, or one
that can be started by itself (``python -m bench.network``).
"""

import argparse
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules
from runpy import run_module

from rich.console import Console

HERE = Path(__file__).parent
SHARED = frozenset({"measured_latencies", "sleeping"})  # what benches share
# They take long and measure no speed.
WHEN_NAMED = frozenset(
    {"choices", "cluster_chaos", "cluster_truth", "deadlines", "fuzz", "mutants", "parts", "worst"}
)


def main() -> None:
    modules = [
        m for m in iter_modules([str(HERE)]) if not m.name.startswith("_") and m.name not in SHARED
    ]
    names = [m.name for m in modules]
    rooms = [m.name for m in modules if m.ispkg]
    match sys.argv[1:]:
        case [room, option, *_] if room in rooms and option.startswith("-"):
            del sys.argv[1]
            run_module(f"bench.{room}", run_name="__main__")
            return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "bench",
        nargs="*",
        help=f"of {', '.join(names)}; default: all but {', '.join(sorted(WHEN_NAMED))}",
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, where there are some")
    given = parser.parse_args()
    for name in given.bench:
        if name not in names:
            parser.error(f"there is no bench {name!r}; there are {', '.join(names)}")
    out = Console(width=None if sys.stdout.isatty() else 120)
    for name in given.bench or [name for name in names if name not in WHEN_NAMED]:
        print(f"--- {name}", file=sys.stderr, flush=True)
        _start(name, out, quick=given.quick)


def _start(name: str, out: Console, *, quick: bool) -> None:
    run = getattr(import_module(f"bench.{name}"), "run", None)
    if run is None:
        subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, check=True)
    elif quick and "quick" in signature(run).parameters:
        run(out, quick=True)
    else:
        run(out)


if __name__ == "__main__":
    main()
