"""Every command that the help pages, the README and docs/cluster.md tell people to type works."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from cli.conftest import Dataward, Spoken
from cli.written_commands import (
    CANNOT,
    ELSEWHERE,
    PAGES,
    ROOT,
    SMALLER,
    in_all_help,
    in_first_help,
    in_help,
    on_page,
    python_on_page,
)
from dataward.cli.commands import COMMANDS
from dataward.cli.exit_codes import ExitCode
from dataward.cli.node import node_command
from dataward.cli.parameters import parameters_of
from dataward.cli.parsing import parse
from dataward.formats.write import write_workflow
from dataward.generate import generate
from dataward.model.builder import WorkflowBuilder
from valkey_servers import program_of

LAST = ("dataward drain", "dataward cluster down")  # what they take away is not there any more
RUN = "montage-9e1f"  # as the help calls a run of a cluster
OF_CLUSTERS = {
    "cluster", "node", "submit", "status", "watch", "nodes", "cancel", "drain", "fetch", "events",
}  # fmt: skip
DAX = """<adag name="montage"><job id="ID0000007" name="mAdd" runtime="3">
<uses file="in" link="input" size="1"/><uses file="out" link="output" size="1"/></job></adag>"""
PEGASUS = """
pegasus: "5.0.4"
name: two
jobs:
  - {type: job, name: a, id: ID1, arguments: [], uses: [{lfn: f, type: output}]}
  - {type: job, name: b, id: ID2, arguments: [], uses: [{lfn: f, type: input}]}
"""


def is_about_a_cluster(line: str) -> bool:
    words = shlex.split(line)
    return words[1] in OF_CLUSTERS or "--access" in words


def runnable(lines: list[str]) -> list[str]:
    """Those that can be run here, with smaller numbers where they would take long."""
    found = []
    for line in lines:
        if line in CANNOT or any(part in line for part in ELSEWHERE):
            continue
        for large, small in SMALLER.items():
            line = line.replace(large, small) if small not in line else line
        found.append(line)
    return found


def here(lines: list[str]) -> list[str]:
    return [line for line in runnable(lines) if not is_about_a_cluster(line)]


def failures(said: Iterable[tuple[str, Spoken]]) -> dict[str, Spoken]:
    return {line: end for line, end in said if end.code != code_of(line)}


def code_of(line: str) -> ExitCode:
    """How a command should end: one asks for a deadline that no machine can keep."""
    return ExitCode.REFUSED if "--deadline 0.001s" in line else ExitCode.OK


# --- what the commands are about -----------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with all the files that examples name."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DATAWARD_ACCESS", raising=False)
    write_workflow(a_montage(tmp_path).build(), "montage.json")
    words = WorkflowBuilder("words")
    Path("all.txt").write_text("b a\n")
    words.command(
        "wc {inputs} > {outputs}; echo {lang}",
        name="count",
        inputs=["all.txt"],
        outputs=["counted"],
    )
    words.command("cat {inputs} > {outputs}", inputs=["counted"], outputs=["merged.txt"])
    write_workflow(words.build(), "words.json")
    blast = WorkflowBuilder("blast")
    blast.command("echo hit > {outputs}", name="blastall", outputs=["hits"])
    write_workflow(blast.build(), "blast.json")
    write_workflow(generate("fork-join", 10, seconds=300.0), "fork.json")
    write_workflow(generate("laplace", 9, seconds=300.0), "laplace.json")
    Path("Montage_25.xml").write_text(DAX)
    Path("workflow.yml").write_text(PEGASUS)
    shutil.copy(ROOT / "docs" / "examples" / "two-sites.yaml", ".")
    return tmp_path


def a_montage(directory: Path) -> WorkflowBuilder:
    """Its first task waits while there is a pipe called gate, until somebody has written to it."""
    gate = directory / "gate"
    wf = WorkflowBuilder("montage")
    first = f"if test -p {gate}; then cat {gate}; fi; echo 1 > {{outputs}}"
    wf.command(first, id="first", outputs=["sky"], runtime_seconds=40.0)
    for id, name in (("ID0000007", "mProject"), ("mDiffFit_1", "mDiffFit")):
        command = "cp {inputs} {outputs}"
        wf.command(command, id=id, name=name, inputs=["sky"], outputs=[id], runtime_seconds=9.0)
    wf.command("cp {inputs} {outputs}", id="mAdd_1", name="mAdd", inputs=["sky"],
               outputs=["mosaic.fits"], runtime_seconds=90.0)  # fmt: skip
    wf.command("cp {inputs} {outputs}", id="mShrink_1", name="mShrink", inputs=["mosaic.fits"],
               outputs=["small.fits"], runtime_seconds=9.0)  # fmt: skip
    return wf


@contextmanager
def run_under_way(place: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of montage.json whose first task has begun, and ends with this."""
    os.mkfifo(place / "gate")
    write_workflow(a_montage(place).build(), "montage.json")  # whatever was made of it meanwhile
    words = ["run", "montage.json", "--replace", "--force", "first", "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-m", "dataward.cli.main", *words], cwd=place, stdout=subprocess.DEVNULL
    ) as process:
        with open(place / "gate", "wb"):  # waits for the task to open it, and lets it go on
            (place / "gate").unlink()
            yield process
        process.wait(60)


def made_here(dataward: Dataward, place: Path, command: str) -> None:
    """What a command is about: runs, and lists of their events."""
    if command in ("why", "logs", "export", "clean", "runs", "trace"):
        for _ in range(3):
            assert dataward("run", "montage.json", "--force", "mAdd", "--quiet").code == ExitCode.OK
    if command == "trace":
        assert dataward("simulate", "montage.json", "--events", "run.events").code == ExitCode.OK


def told(dataward: Dataward, place: Path, line: str) -> Spoken:
    """What a command says, in a place where it can be given."""
    words = [word.replace("/scratch", str(place / "scratch")) for word in shlex.split(line)[1:]]
    if "TARGET" in words:
        write_workflow(a_montage(place).build(), "montage.json")
        words = ["mosaic.fits" if word == "TARGET" else word for word in words]
    if words[0] == "remove":
        with run_under_way(place):
            return dataward(*words)
    if "--resume" in words:
        with run_under_way(place) as process:
            process.kill()
            process.wait()
    return dataward(*words)


# --- on this machine -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", [name for name in COMMANDS if here(in_help(name))])
def test_the_examples_in_the_help_work(dataward: Dataward, place: Path, command: str) -> None:
    made_here(dataward, place, command)

    assert failures((line, told(dataward, place, line)) for line in here(in_help(command))) == {}


def test_the_first_commands_and_those_of_the_readme_work_one_after_the_other(
    dataward: Dataward, place: Path
) -> None:
    lines = here([*in_first_help(), *on_page("README.md")])

    assert len(lines) > 15
    assert failures((line, told(dataward, place, line)) for line in lines) == {}


def test_the_python_of_the_readme_works(
    dataward: Dataward, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, *builders = python_on_page("README.md")
    exec(compile(calls, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out == "504495\n"

    exec(compile("".join(builders), "README.md", "exec"), {"__name__": "readme"})
    Path("all.txt").write_text("c\nb\na\n")

    assert dataward("run", "sorting.json").code == ExitCode.OK
    assert Path("sorting.run/outputs/sorted.txt").read_text() == "a\nb\nc\n"


# --- on a cluster --------------------------------------------------------------------------------


class Lab:
    """A cluster of four nodes of this machine, and a run in it that has ended."""

    def __init__(self, dataward: Dataward, place: Path) -> None:
        self._dataward = dataward
        self._place = place
        self._count = 0

    def told(self, line: str) -> Spoken:
        """What a command says about the cluster, once there is what it is about."""
        if line.startswith(("dataward cluster init", "dataward cluster store")):
            return self._told_elsewhere(line)
        if line.startswith("dataward node "):
            return self._node_told(line)
        if line.startswith(("dataward cancel", "dataward clean")):
            name = self._a_run(is_waited_for="clean" in line)
            said = self._dataward(*self._words(line.replace(RUN, name).replace("RUN", name)))
            self._dataward("cancel", name)  # what is left of it, if only a task was cancelled
            return said
        return self._dataward(*self._words(line))

    def _words(self, line: str) -> list[str]:
        contacts = self._place / "lab" / "contacts"
        stands_for = {
            "RUN": RUN, "TASK": "mAdd_1", "NODE": "n4", "FILE": "lab/submit.access",
            "n1:7000": (contacts / "n1").read_text().strip(), "0.0.0.0:7000": "0.0.0.0:0",
            "/scratch/dw": str(self._place / "depot"),
        }  # fmt: skip
        return [stands_for.get(word, word) for word in shlex.split(line)[1:]]

    def _a_run(self, *, is_waited_for: bool) -> str:
        """The name of a new run: one that has ended, or one that does not end by itself."""
        self._count += 1
        name, file = f"run-{self._count}", f"montage-{self._count}.json"
        directory = self._place / f"run-{self._count}"
        directory.mkdir()
        if not is_waited_for:
            os.mkfifo(directory / "gate")  # to which nobody writes
        write_workflow(a_montage(directory).build(), file)
        words = ["submit", file, "--name", name, *(["--wait"] if is_waited_for else [])]
        assert self._dataward(*words).code == ExitCode.OK
        return name

    def _told_elsewhere(self, line: str) -> Spoken:
        """Clusters are founded, and stores started, in directories of their own."""
        self._count += 1
        directory = self._place / f"founded-{self._count}"
        directory.mkdir()
        os.chdir(directory)
        try:
            if "store lab" in line:
                assert self._dataward("cluster", "init", "lab").code == ExitCode.OK
            said = self._dataward(*shlex.split(line)[1:])
            if "store lab" in line:
                self._dataward("cluster", "store", "lab", "--stop")
            return said
        finally:
            os.chdir(self._place)

    def _node_told(self, line: str) -> Spoken:
        """A node is told to end as soon as it is up."""
        words = [w if w != "lab/submit.access" else "lab/node.access" for w in self._words(line)]
        command = [sys.executable, "-m", "dataward.cli.main", *words]
        with subprocess.Popen(command, cwd=self._place, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            err = ""
            for said in process.stderr:
                err += said.decode()
                if b" up at " in said:
                    process.send_signal(signal.SIGTERM)
            return Spoken(process.wait(60), "", err)


@pytest.fixture
def lab(dataward: Dataward, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    program_of("any")
    monkeypatch.setenv("DATAWARD_ACCESS", "lab/submit.access")  # as docs/cluster.md has it
    try:
        assert dataward("cluster", "up", "lab", "--nodes", "4", "--slots", "1").code == ExitCode.OK
        submit = ("submit", "montage.json", "--name", RUN, "--wait", "--quiet")
        assert dataward(*submit).code == ExitCode.OK
        yield Lab(dataward, place)
    finally:
        dataward("cluster", "down", "lab")


def test_all_commands_about_clusters_work(lab: Lab) -> None:
    others = filter(is_about_a_cluster, runnable([*in_all_help(), *on_page("README.md")]))
    of_cluster = list(dict.fromkeys([*others, *runnable(on_page("docs/cluster.md"))]))
    for command in LAST:
        of_cluster.sort(key=lambda line: line.startswith(command))

    assert len(of_cluster) > 30
    assert failures((line, lab.told(line)) for line in of_cluster) == {}


def test_nodes_that_others_start_get_options_that_there_are() -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    whole = re.sub(r"\\?\n +--", " --", text)
    found = re.findall(r"dataward (node +--access [^>'\"\n]*)", whole)
    lines = [re.sub(r"\$\([^)]*\)|\$\w+", "1", line) for line in found]  # as a shell would fill in
    given = [parse(shlex.split(line)[1:], parameters_of(node_command)) for line in lines]

    assert len(given) == 3  # by ssh, under Slurm, on Kubernetes
    assert all({"access", "listen", "depot"} <= set(options) for options in given)


def test_the_pods_have_the_addresses_that_they_tell() -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    service, pods = yaml.safe_load_all(text.partition("```yaml\n")[2].partition("```")[0])
    template, name = pods["spec"]["template"], service["metadata"]["name"]
    (container,) = template["spec"]["containers"]

    assert service["spec"]["clusterIP"] == "None"  # so that each pod has a name
    assert pods["spec"]["serviceName"] == name
    assert f"--address $(hostname).{name}:7000" in container["command"][-1]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    assert pods["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    volumes = [*template["spec"]["volumes"], *pods["spec"]["volumeClaimTemplates"]]
    names = {volume.get("name") or volume["metadata"]["name"] for volume in volumes}
    assert {mount["name"] for mount in container["volumeMounts"]} == names


# --- what is left out ----------------------------------------------------------------------------


def test_what_cannot_be_run_is_still_written_somewhere() -> None:
    lines = [*in_all_help(), *(line for page in PAGES for line in on_page(page))]

    assert [line for line in CANNOT if line not in lines] == []
    assert [part for part in [*SMALLER, *ELSEWHERE] if not any(part in x for x in lines)] == []


def test_smaller_numbers_are_all_that_differs() -> None:
    for large, small in SMALLER.items():
        options = [word for word in large.split() if word.startswith("-")]
        assert all(option in small.split() for option in options)
