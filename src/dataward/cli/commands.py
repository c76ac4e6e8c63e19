"""Every command with one line about it; a command's module is loaded when it is asked for."""

from collections.abc import Sequence
from importlib import import_module

from dataward import __version__
from dataward.cli.parameters import UsageError, parameters_of
from dataward.cli.parsing import HELP, asks_for_help, parse, similar

COMMANDS = {
    "run": "Run a workflow on this machine, for real.",
    "generate": "Make a workflow of a known shape, of any size.",
    "inspect": "Describe a workflow, and how fast it could be.",
    "bound": "Compute the MATRIX paper's bound on makespans.",
    "convert": "Write any workflow file as WfFormat.",
    "simulate": "Run a workflow on simulated machines.",
    "deadlines": "Simulate workflows that are promised in time.",
    "strategies": "List the ways to schedule, and their papers.",
    "reproduce": "Repeat the papers' experiments.",
    "trace": "Turn a run's events into a Perfetto trace.",
    "seeds": "Check every invariant under seeded faults.",
    "runs": "List past runs and the one under way.",
    "remove": "Remove tasks from a run under way.",
    "why": "Say why a task ran, was skipped or waits.",
    "logs": "Print what a task wrote to its streams.",
    "export": "Write a run's workflow with what it measured.",
    "clean": "Remove what old and broken runs have left.",
    "cluster init": "Found a cluster, with its access files.",
    "cluster store": "Start a local store for a cluster.",
    "cluster up": "Start a store and nodes on this machine.",
    "cluster down": "End what 'cluster up' has started.",
    "node": "Run a node of a cluster, until it is drained.",
    "submit": "Submit a workflow to a cluster.",
    "status": "Say how the runs of a cluster stand.",
    "watch": "Watch a run of a cluster.",
    "nodes": "List the nodes of a cluster.",
    "cancel": "Cancel a cluster's run, or some of its tasks.",
    "drain": "Let a node finish its work and leave.",
    "fetch": "Bring the results of a cluster's run here.",
    "events": "Write a cluster run's events as one list.",
}

ABOUT = """Runs workflows close to their data.

Start here:

- `dataward generate montage --tasks 100 -o montage.json`
- `dataward inspect montage.json`
- `dataward simulate montage.json --nodes 8 --plot run.svg`
"""
_CODES = (
    "Exit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 cannot write, 5 partial, "
    "6 deadline refused, 130 Ctrl-C."
)


def run(words: Sequence[str]) -> None:
    """Do what the words of the command line ask for. Raises DatawardError, SystemExit."""
    if not words or words[0] in HELP:
        from dataward.cli.help_text import page_of_all

        print(page_of_all(ABOUT, COMMANDS, _CODES))
    elif words[0] == "--version":
        print(f"dataward {__version__}")
    elif " ".join(words[:2]) in COMMANDS:
        _run_command(" ".join(words[:2]), words[2:])
    elif words[0] in COMMANDS:
        _run_command(words[0], words[1:])
    elif any(name.startswith(f"{words[0]} ") for name in COMMANDS):
        _ask_for_more(words)
    else:
        what = "option" if words[0].startswith("-") else "command"
        known = similar(words[0], ["--version", *HELP] if what == "option" else list(COMMANDS))
        raise UsageError(f"there is no {what} {words[0]}{known}; see dataward --help")


def _ask_for_more(words: Sequence[str]) -> None:
    """Say which commands begin with this word."""
    group = {name: line for name, line in COMMANDS.items() if name.startswith(f"{words[0]} ")}
    if len(words) > 1 and words[1] in HELP:
        from dataward.cli.help_text import page_of_all

        print(page_of_all(f"Commands about a {words[0]}.\n", group, ""))
        return
    there_are = ", ".join(name.partition(" ")[2] for name in group)
    raise UsageError(f"{words[0]} needs another word: {there_are}; see dataward {words[0]} --help")


def _run_command(name: str, words: Sequence[str]) -> None:
    """Call the function NAME_command of the module NAME with what the words say."""
    place = name.replace(" ", "_")
    module = import_module(f"dataward.cli.{place}")
    function = getattr(module, f"{place}_command")
    parameters = parameters_of(function)
    if asks_for_help(words):
        from dataward.cli.help_text import page_of_command

        listing = getattr(module, "help_listing", None)
        print(page_of_command(name, function, parameters, listing() if listing else ""))
        return
    try:
        values = parse(words, parameters)
    except UsageError as error:
        raise UsageError(f"{error}; see dataward {name} --help") from None
    function(**{p.key: values.get(p.key, p.default) for p in parameters})
