"""Options that several commands have: the same name says the same in each help page."""

from collections import defaultdict
from importlib import import_module

from dataward.cli.commands import COMMANDS
from dataward.cli.parameters import CommandParameter, parameters_of

# Names that are short and mean something of its own in each command; a default, a range or what it
# is about differs.
MEANINGS = {
    "--bandwidth": {"node"},
    "--contact": {"cluster init"},
    "--copies": {"simulate"},
    "--cores": {"bound"},
    "--dry-run": {"clean"},
    "--minutes": {"seeds"},
    "--name": {"cluster init", "node", "submit"},
    "--nodes": {"run", "inspect"},
    "--out": {"run", "fetch", "reproduce"},
    "--output": {"generate", "trace", "export", "events"},
    "--quiet": {"node"},
    "--seed": {"seeds"},
    "--set": {"generate", "simulate"},
    "--slots": {"cluster up"},
    "--store": {"cluster init"},
    "--strategy": {"run", "simulate", "seeds"},
}
# With an access file these do on a cluster what they do here without; a node's is another file.
ON_BOTH = {"run", "why", "logs", "export", "clean"}


def options() -> dict[str, dict[str, CommandParameter]]:
    """Every option, by its name and then by the command."""
    found: dict[str, dict[str, CommandParameter]] = defaultdict(dict)
    for command in COMMANDS:
        place = command.replace(" ", "_")
        function = getattr(import_module(f"dataward.cli.{place}"), f"{place}_command")
        for parameter in parameters_of(function):
            for name in parameter.names[:1]:
                found[name][command] = parameter
    return found


def test_an_option_of_several_commands_has_the_same_help_in_all() -> None:
    for name, by_command in options().items():
        kept = {
            command: parameter
            for command, parameter in by_command.items()
            if command not in MEANINGS.get(name, ()) and name != "--access"
        }
        assert len({parameter.help for parameter in kept.values()}) <= 1, (name, list(kept))


def test_every_command_that_asks_a_cluster_can_be_told_whom_to_ask_and_with_what() -> None:
    found = options()
    helps = defaultdict(set)
    for command, parameter in found["--access"].items():
        helps[parameter.help].add(command)

    assert set(helps) == {
        "The access file; default: as DATAWARD_ACCESS says.",
        "On a cluster, with this access file; default: on this machine.",
        "The access file for nodes: node.access.",
    }
    assert ON_BOTH in helps.values()
    assert set(found["--access"]) - {"node"} == set(found["--contact"]) - {"cluster init"}


def test_the_names_with_meanings_of_their_own_are_still_there() -> None:
    found = options()

    assert {name: commands - set(found[name]) for name, commands in MEANINGS.items()} == {
        name: set() for name in MEANINGS
    }
