"""What several commands take, each defined once: in the same words wherever it means the same."""

from pathlib import Path
from typing import Annotated

from dataward.cli.parameters import Argument, Option
from dataward.model.edges import Edges

CORES_DEFAULT = 4  # ADAGE's nodes have four
CORES_MAX = 1_000_000
LEASE_SECONDS_MIN = 0.5
PORT_MAX = 65_535

# --- workflows and results ---

WorkflowFile = Annotated[
    Path, Argument(help="The workflow: WfFormat, DAX or Pegasus YAML; .gz too.")
]
SchemaOption = Annotated[str, Option("--schema", help="WfFormat version: 1.6 or 1.5.")]
JsonOption = Annotated[bool, Option("--json", help="Print the result as JSON.")]
QuietOption = Annotated[bool, Option("--quiet", help="Show nothing while it runs.")]
EventsOption = Annotated[
    Path | None, Option("--events", help="Write every event to this file, too.")
]
SeedOption = Annotated[int, Option("--seed", help="Same seed, same result.", min=0)]
EdgesOption = Annotated[
    Edges, Option("--edges", help="Which edges order the tasks: as declared, from files, or both.")
]
CoresOption = Annotated[
    int | None,
    Option(
        "--cores",
        help=f"Cores of each node; default {CORES_DEFAULT}, or as many as a task needs.",
        min=1,
        max=CORES_MAX,
    ),
]
BandwidthOption = Annotated[
    str, Option("--bandwidth", help="Each node's link, each way, as 10Gbps or 125MB/s.")
]
FaultsOption = Annotated[
    str,
    Option("--faults", help="What goes wrong: none, crashes, stragglers, chaos, or crash=0.2,..."),
]

# --- how a workflow is run ---

TargetArguments = Annotated[
    list[str] | None,
    Argument(help="Only what makes these: files, tasks or types of tasks; default: all."),
]
ForceOption = Annotated[
    list[str] | None,
    Option("--force", help="Run this task, or type of tasks, even if nothing changed."),
]
UntilOption = Annotated[
    list[str] | None,
    Option("--until", help="Go no further than this file, task or type of tasks."),
]
ParameterOption = Annotated[
    list[str] | None,
    Option("--set-param", help="Fill {name} in commands and file names: name=value."),
]
RetriesOption = Annotated[
    int, Option("--retries", help="How often to retry a failing task.", min=0)
]
TimeLimitOption = Annotated[
    str,
    Option("--time-limit", help="Longest run of a task, as 90s, 5min or 2h; default: no limit."),
]
WrapOption = Annotated[
    list[str] | None,
    Option("--wrap", help="Run every command by another, or TYPE= and one for tasks of a type."),
]
TrackProgramsOption = Annotated[
    bool, Option("--track-programs", help="Rerun tasks whose program's own file has changed.")
]
SettingOption = Annotated[
    list[str] | None,
    Option("--set", help="A setting, as log_bytes_max=1000000; --set x=1 lists them."),
]
FreshOption = Annotated[
    bool, Option("--fresh", help="Run every task, even if the cluster knows its outcome.")
]
SlotsOption = Annotated[
    int | None,
    Option("--slots", help="Tasks at a time on each node; default: as many as cores.", min=1),
]

# --- runs and tasks that there are ---

RunArgument = Annotated[
    str, Argument(help="A run, as montage.run or montage.run/2; with --access, its name.")
]
ClusterRunArgument = Annotated[str, Argument(help="The run's name, as 'dataward status' lists it.")]
TaskArgument = Annotated[str, Argument(help="The task's id.")]

# --- clusters ---

AccessOption = Annotated[
    Path | None, Option("--access", help="The access file; default: as DATAWARD_ACCESS says.")
]
ElsewhereOption = Annotated[
    Path | None,
    Option("--access", help="On a cluster, with this access file; default: on this machine."),
]
ContactOption = Annotated[list[str] | None, Option("--contact", help="Ask the node at HOST:PORT.")]
ClusterPath = Annotated[Path, Argument(help="The cluster's directory.")]
ShardsOption = Annotated[
    int, Option("--shards", help="Servers of the store: 1, or 3 as a cluster.", min=1, max=3)
]
ReplicasOption = Annotated[
    int, Option("--replicas", help="Replicas of each of 3 servers.", min=0, max=1)
]
LeaseOption = Annotated[
    str, Option("--lease", help="A node that is silent for so long is taken for dead.")
]


def lease_seconds_of(lease: str) -> float:
    """How long a lease is. Raises SettingError."""
    from dataward.errors import SettingError
    from dataward.model.quantities import parse_seconds

    seconds = parse_seconds(lease)
    if seconds < LEASE_SECONDS_MIN:
        least = f"at least {LEASE_SECONDS_MIN}s"
        raise SettingError(f"--lease takes {least}: renewals need time to arrive")
    return seconds


def check_address(option: str, text: str) -> None:
    """Raise SettingError if what the option is given is no HOST:PORT that one can connect to."""
    from dataward.errors import SettingError

    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
        raise SettingError(f"{option} cannot be {text!r}; it takes HOST:PORT, as n1:7000")
