"""Snakemake on two cores, commands only: one rule for all tasks, as its users would write it.

It has no start-up of its own to leave out, so a run of one task is timed and taken off; a first
such run is not counted, for it fills the caches.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import workloads

COMMANDS = """
rule all:
    input: [f"done/{{i}}" for i in range({count})]
rule command:
    output: touch("done/{{i}}")
    shell: "true"
"""

FILES = """
wildcard_constraints: layer="[1-9][0-9]*", i="[0-9]+"
def before(wildcards):
    layer, i = int(wildcards.layer) - 1, int(wildcards.i)
    return [f"f{{layer}}-{{i}}", f"f{{layer}}-{{(i + 1) % {width}}}"]
rule all:
    input: [f"f{layers}-{{i}}" for i in range({width})]
rule combine:
    input: before
    output: "f{{layer}}-{{i}}"
    shell: "head -q -c {half} {{input}} > {{output}}"
"""


def commands(count: int) -> tuple[str, int]:
    return COMMANDS.format(count=count), count


def files(width: int) -> tuple[str, int]:
    workloads.write_first_layer(width)
    layers, half = workloads.LAYERS, workloads.FILE_BYTES // 2
    return FILES.format(width=width, layers=layers, half=half), width * layers


SNAKEFILES: dict[str, Callable[[int], tuple[str, int]]] = {"commands": commands, "files": files}


def wall_seconds(snakefile: str, directory: Path) -> float:
    directory.mkdir(exist_ok=True)
    (directory / "Snakefile").write_text(snakefile)
    program = str(Path(sys.executable).with_name("snakemake"))
    start = perf_counter()
    subprocess.run([program, "--cores", "2", "--quiet", "all"], cwd=directory, check=True)
    return perf_counter() - start


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    wall_seconds(commands(1)[0], Path("first-run"))
    one_task = wall_seconds(commands(1)[0], Path("one-task"))
    snakefile, tasks = SNAKEFILES[name](size)
    whole = wall_seconds(snakefile, Path.cwd())
    if name == "files":
        workloads.check_last_layer(Path.cwd(), size)
    # The one task is in both, so its time is taken off too.
    assert whole > one_task, "too few tasks to tell them from the start-up"
    workloads.report(whole - one_task, tasks - 1, whole_seconds=whole)


if __name__ == "__main__":
    main()
