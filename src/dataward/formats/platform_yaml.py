"""Reads platforms from small YAML files: groups of equal machines, their links, and the store."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataward.errors import DatawardError, FormatError, SettingError
from dataward.formats.content import ReadLimits, file_chunks, unpacked
from dataward.formats.yaml_events import YamlEvents, YamlNode
from dataward.model.ids import NodeId
from dataward.model.names import check_name
from dataward.model.platform import Machine, Placement, Platform, StoreModel
from dataward.model.quantities import parse_bandwidth, parse_bytes, parse_seconds

NODES_MAX = 10_000_000
FieldReader = Callable[[str], Any]


def _placement(text: str) -> Placement:
    try:
        return Placement(text)
    except ValueError:
        known = ", ".join(placement.value for placement in Placement)
        raise SettingError(f"{text!r} is not a placement of inputs; choose {known}") from None


def _name(text: str) -> str:
    check_name("node or site", text)
    return text


_PLATFORM: dict[str, tuple[str, FieldReader]] = {
    "latency": ("latency_seconds", parse_seconds),
    "site_bandwidth": ("site_bytes_per_second", parse_bandwidth),
    "site_latency": ("site_latency_seconds", parse_seconds),
    "origin_bandwidth": ("origin_bytes_per_second", parse_bandwidth),
    "origin_site": ("origin_site", _name),
    "inputs": ("placement", _placement),
    "copies": ("copies", int),
}
_STORE: dict[str, tuple[str, FieldReader]] = {
    "shards": ("shards", int),
    "latency": ("latency_seconds", parse_seconds),
    "service": ("service_seconds", parse_seconds),
}
_MACHINE: dict[str, tuple[str, FieldReader]] = {
    "cores": ("cores", int),
    "speed": ("speed", float),
    "memory": ("memory_bytes", parse_bytes),
    "capacity": ("capacity_bytes", parse_bytes),
    "disk": ("disk_bytes_per_second", parse_bandwidth),
    "sync": ("sync_seconds", parse_seconds),
    "up": ("up_bytes_per_second", parse_bandwidth),
    "down": ("down_bytes_per_second", parse_bandwidth),
    "site": ("site", _name),
}


def read_platform(path: Path | str) -> Platform:
    """The platform in a file; what the file leaves out is as in ``Platform``'s defaults."""
    source = str(path)
    events = YamlEvents(unpacked(file_chunks(Path(path), source), source, ReadLimits()), source)
    events.open_document()
    root = events.node()
    events.close_document()
    top = _mapping(root, "the platform", source)
    groups = top.pop("nodes", None)
    store = top.pop("store", None)
    if groups is None or not isinstance(groups.value, list):
        raise FormatError(source, "needs a list of groups under 'nodes'", place=f"line {root.line}")
    fields = _read(top, _PLATFORM, "the platform", source)
    part = _mapping(store, "the store", source) if store is not None else {}
    store_fields = _read(part, _STORE, "the store", source)
    machines = [m for group in groups.value for m in _machines(group, source)]
    try:
        fields["store"] = StoreModel(**store_fields)
        return Platform(machines=tuple(machines), **fields)
    except SettingError as error:
        raise FormatError(source, str(error)) from error


def _machines(group: YamlNode, source: str) -> list[Machine]:
    part = _mapping(group, "a group of nodes", source)
    place = f"line {group.line}"
    count_node, name_node = part.pop("count", None), part.pop("name", None)
    count = _value(count_node, "count", int, source) if count_node else 1
    name = _value(name_node, "name", _name, source) if name_node else f"line{group.line}"
    if not 1 <= count <= NODES_MAX:
        raise FormatError(source, f"a group has 1 to {NODES_MAX:,} nodes, not {count}", place=place)
    if both := part.pop("bandwidth", None):
        part.setdefault("up", both)
        part.setdefault("down", both)
    machine = Machine(NodeId(name), **_read(part, _MACHINE, "a group of nodes", source))
    if count == 1:
        return [machine]
    width = len(str(count - 1))
    return [replace(machine, id=NodeId(f"{name}-{i:0{width}}")) for i in range(count)]


def _mapping(node: YamlNode, what: str, source: str) -> dict[str, YamlNode]:
    if not isinstance(node.value, dict):
        raise FormatError(source, f"{what} should be a mapping", place=f"line {node.line}")
    return dict(node.value)


def _read(
    part: Mapping[str, YamlNode],
    known: Mapping[str, tuple[str, FieldReader]],
    what: str,
    source: str,
) -> dict[str, Any]:
    fields = {}
    for key, node in part.items():
        if key not in known:
            remedy = f"it may have {', '.join(known)}"
            problem = f"{what} has the unknown key {key!r}"
            raise FormatError(source, problem, place=f"line {node.line}", remedy=remedy)
        field, reader = known[key]
        fields[field] = _value(node, key, reader, source)
    return fields


def _value(node: YamlNode, key: str, reader: FieldReader, source: str) -> Any:
    if not isinstance(node.value, str):
        raise FormatError(source, f"{key!r} should be a single value", place=f"line {node.line}")
    try:
        return reader(node.value)
    except (ValueError, OverflowError, DatawardError) as error:
        problem = (
            f"{key!r}: {error}"
            if isinstance(error, DatawardError)
            else (f"{key!r} should be a number, not {node.value[:40]!r}")
        )
        raise FormatError(source, problem, place=f"line {node.line}") from error
