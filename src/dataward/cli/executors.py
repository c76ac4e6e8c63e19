"""Executors of a cluster as the command line tells of them: what all hosts say, put together."""

from collections.abc import Sequence
from typing import Any

from dataward.cli.complaints import visible
from dataward.cluster.exchange import ExecutorFacts
from dataward.model.quantities import show_bytes, show_seconds


def by_executor(facts: Sequence[ExecutorFacts]) -> list[list[ExecutorFacts]]:
    """The facts of each executor together, the one that came first at the beginning."""
    found: dict[str, list[ExecutorFacts]] = {}
    for one in facts:
        found.setdefault(one.name, []).append(one)
    return sorted(found.values(), key=lambda ones: -max(one.seconds for one in ones))


def executor_as_json(facts: Sequence[ExecutorFacts]) -> dict[str, Any]:
    return {
        "executor": facts[0].name,
        "caller": facts[0].caller,
        "nodes": sorted(one.node for one in facts),
        "slots": sum(one.slots for one in facts),
        "calls": sum(one.calls for one in facts),
        "values": sum(one.values for one in facts),
        "value_bytes": sum(one.value_bytes for one in facts),
        "seconds": max(one.seconds for one in facts),
    }


def sentence_about_executor(facts: dict[str, Any]) -> str:
    calls = "1 call" if facts["calls"] == 1 else f"{facts['calls']:,} calls"
    parts = [f"{facts['slots']} slots", f"{calls} made"]
    if facts["values"]:
        parts.append(f"{facts['values']:,} values of {show_bytes(facts['value_bytes'])} kept")
    who, seconds = visible(facts["caller"]), show_seconds(facts["seconds"])
    return f"{visible(facts['executor'])}: an executor of {who} for {seconds}, {', '.join(parts)}"
