"""Platform files: every key, every mistake with its line, and files that mean harm."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dataward.errors import FormatError
from dataward.formats.platform_yaml import read_platform
from dataward.model.platform import GBPS, Machine, Placement, Platform, StoreModel

Read = Callable[[str], Platform]
EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.yaml"))


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def parse(text: str) -> Platform:
        path = tmp_path / "platform.yaml"
        path.write_text(text)
        return read_platform(path)

    return parse


# --- what a file may say -------------------------------------------------------------------------


def test_one_node_is_a_platform(read: Read) -> None:
    assert read("nodes: [{name: alone}]") == Platform((Machine("alone"),))


def test_every_key(read: Read) -> None:
    platform = read("""
latency: 1ms
site_bandwidth: 100Mbps
site_latency: 20ms
origin_bandwidth: 1Gbps
origin_site: lyon
inputs: spread
copies: 3
store: {shards: 4, latency: 2ms, service: 1ms}
nodes:
  - name: big
    cores: 16
    speed: 1.5
    memory: 64GB
    capacity: 2TB
    disk: 1GB/s
    up: 2Gbps
    down: 4Gbps
    site: lyon
    sync: 5ms
""")

    assert platform == Platform(
        machines=(
            Machine("big", 16, 1.5, 64e9, 2e12, 1e9, 2 * GBPS, 4 * GBPS, "lyon", 0.005),
        ),
        latency_seconds=0.001,
        site_bytes_per_second=12.5e6,
        site_latency_seconds=0.02,
        origin_bytes_per_second=GBPS,
        origin_site="lyon",
        placement=Placement.SPREAD,
        copies=3,
        store=StoreModel(4, 0.002, 0.001),
    )  # fmt: skip


def test_what_is_not_said_is_as_by_default(read: Read) -> None:
    platform = read("nodes: [{name: n}]\nstore: {shards: 2}")

    assert platform == Platform((Machine("n"),), store=replace(StoreModel(), shards=2))


def test_a_group_is_so_many_equal_machines_in_order(read: Read) -> None:
    machines = read("nodes: [{name: n, count: 11, cores: 2}, {name: m}]").machines

    assert [machine.id for machine in machines] == [*(f"n-{i:02}" for i in range(11)), "m"]
    assert {replace(machine, id="") for machine in machines[:-1]} == {Machine("", cores=2)}


def test_a_group_without_a_name_is_named_for_its_line(read: Read) -> None:
    machines = read("nodes:\n  - count: 2\n  - cores: 8\n").machines

    assert [machine.id for machine in machines] == ["line2-0", "line2-1", "line3"]


def test_bandwidth_is_both_ways_unless_one_is_said(read: Read) -> None:
    (machine,) = read("nodes: [{name: n, bandwidth: 2Gbps, down: 1Gbps}]").machines

    assert (machine.up_bytes_per_second, machine.down_bytes_per_second) == (2 * GBPS, GBPS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_can_be_read(path: Path) -> None:
    assert read_platform(path).machines


# --- mistakes ------------------------------------------------------------------------------------

ONE = "nodes:\n  - name: n\n"  # two lines


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("latency: 1ms\n", "line 1", "needs a list of groups under 'nodes'"),
        ("nodes: {}\n", "line 1", "needs a list of groups under 'nodes'"),
        ("nodes:\n  - just text\n", "line 2", "a group of nodes should be a mapping"),
        ("- a list\n", "line 1", "the platform should be a mapping"),
        (f"{ONE}store: fast\n", "line 3", "the store should be a mapping"),
        (f"{ONE}colour: red\n", "line 3", "the platform has the unknown key 'colour'; it may have"),
        (f"{ONE}    colour: red\n", "line 3", "a group of nodes has the unknown key 'colour'; it"),
        (f"{ONE}store: {{size: 3}}\n", "line 3", "the store has the unknown key 'size'; it may"),
        (f"{ONE}    cores: some\n", "line 3", "'cores' should be a number, not 'some'"),
        (f"{ONE}    cores: 1.5\n", "line 3", "'cores' should be a number, not '1.5'"),
        (f"{ONE}    cores: [1, 2]\n", "line 3", "'cores' should be a single value"),
        (f"{ONE}    memory: 4 parsecs\n", "line 3", "'memory': '4 parsecs' is not a size; write"),
        (f"{ONE}    memory: 1e999\n", "line 3", "'memory' should be a number"),
        (f"{ONE}    disk: quick\n", "line 3", "'disk': 'quick' is not a bandwidth such as"),
        (f"{ONE}    count: 0\n", "line 2", "a group has 1 to 10,000,000 nodes, not 0"),
        (f"{ONE}    count: 99999999999\n", "line 2", "a group has 1 to 10,000,000 nodes"),
        (f"{ONE}latency: soon\n", "line 3", "'latency': 'soon' is not a duration such as 30s"),
        (f"{ONE}inputs: nowhere\n", "line 3", "choose edge, spread"),
        ('nodes:\n  - name: "a\\u0007"\n', "line 2", "contains the control character"),
        (f'{ONE}origin_site: ""\n', "line 3", "is empty"),
        (f"{ONE}copies: 1\ncopies: 2\n", "line 4", "has the key 'copies' twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(read: Read, text: str, place: str, problem: str) -> None:
    with pytest.raises(FormatError) as error:
        read(text)

    assert error.value.place == place
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: []\n", "needs at least one node"),
        ("nodes: [{name: a}, {name: a}]\n", "two nodes of the platform have the same name"),
        ("nodes: [{name: a, count: 2}, {name: a-1}]\n", "two nodes .* have the same name"),
        ("nodes: [{name: a, cores: 0}]\n", "cores.* above 0"),
        ("nodes: [{name: a, speed: -1}]\n", "speed.* above 0"),
        ("nodes: [{name: a, speed: nan}]\n", "speed.* above 0"),
        ("nodes: [{name: a, up: 0}]\n", "up.* above 0"),
        ("nodes: [{name: a, capacity: 0}]\n", "capacity.* above 0"),
    ],
)
def test_machines_that_cannot_be_are_refused(read: Read, text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "nodes: [{name: n, speed: inf}]",
        "nodes: [{name: origin}]",
        f"{ONE}store: {{shards: 0}}",
        f"{ONE}store: {{shards: -1}}",
        f"{ONE}inputs: spread\ncopies: -1",
        f"{ONE}origin_bandwidth: 0",
        f"{ONE}site_bandwidth: 0",
    ],
)
def test_platforms_that_cannot_run_are_refused(read: Read, text: str) -> None:
    with pytest.raises(FormatError):
        read(text)


# --- harm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "nodes: &all [{name: a}]\nmore: *all\n",
        "nodes: [{<<: {name: a}}]\n",
        "nodes: " + "[" * 200 + "]" * 200,
        "nodes: " + "[" * 100_000,
        f"{ONE}---\n{ONE}",
        "nodes:\n\t- name: a\n",
        "nodes: !!python/object/apply:os.system [echo]\n",
        "nodes: [{? [complex, key] : 1}]\n",
        "nodes: [{count: " + "9" * 100_000 + "}]\n",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nnodes: [*b,*b,*b,*b]\n",
    ],
    ids=[
        "nothing", "a null byte", "aliases", "a merge key", "deep", "deeper", "two documents",
        "a tab", "a Python tag", "a list for a key", "an endless number", "a bomb",
    ],
)  # fmt: skip
def test_files_that_mean_harm_are_refused_in_a_sentence(read: Read, text: str) -> None:
    with pytest.raises(FormatError) as error:
        read(text)

    assert len(str(error.value)) < 400


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "platform.yaml"
    path.write_bytes(b"nodes: [\xff\xfe]")

    with pytest.raises(FormatError):
        read_platform(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere\.yaml"):
        read_platform(tmp_path / "nowhere.yaml")
