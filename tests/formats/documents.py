"""Small workflow files for tests, one per format and version."""

import json
from typing import Any

Document = dict[str, Any]

TASKS = ("split", "left", "right", "join")


def split_document(version: str = "1.6") -> Document:
    """A diamond as WfFormat 1.5 and 1.6 write it."""
    return {
        "name": "diamond",
        "schemaVersion": version,
        "workflow": {
            "specification": {
                "tasks": [
                    spec_task("split", [], ["left", "right"], ["in"], ["a", "b"]),
                    spec_task("left", ["split"], ["join"], ["a"], ["c"]),
                    spec_task("right", ["split"], ["join"], ["b"], ["d"]),
                    spec_task("join", ["left", "right"], [], ["c", "d"], ["out"]),
                ],
                "files": [
                    {"id": file, "sizeInBytes": 10 * i}
                    for i, file in enumerate(["in", "a", "b", "c", "d"])
                ],
            },
            "execution": {
                "makespanInSeconds": 3.5,
                "executedAt": "2024-01-01T00:00:00Z",
                "tasks": [run(task, i + 0.5) for i, task in enumerate(TASKS)],
                "machines": [{"nodeName": "n1"}],
            },
        },
    }


def spec_task(
    id: str, parents: list[str], children: list[str], inputs: list[str], outputs: list[str]
) -> Document:
    return {
        "name": f"{id}-name",
        "id": id,
        "parents": parents,
        "children": children,
        "inputFiles": inputs,
        "outputFiles": outputs,
    }


def run(id: str, seconds: float) -> Document:
    return {
        "id": id,
        "runtimeInSeconds": seconds,
        "command": {"program": "prog", "arguments": ["-x", id]},
        "coreCount": 2,
        "memoryInBytes": 1000,
        "avgCPU": 99.5,
        "machines": ["n1"],
    }


def flat_document(version: str) -> Document:
    """The same diamond as WfFormat 1.0 to 1.4 wrote it: references by name, units in key names."""
    units = version == "1.4"
    tasks = []
    for i, task in enumerate(TASKS):
        spec = split_document()["workflow"]["specification"]["tasks"][i]
        files = [*((f, "input") for f in spec["inputFiles"])]
        files += [(f, "output") for f in spec["outputFiles"]]
        entry: Document = {
            "name": f"{task}_ID{i}",
            "type": "compute",
            "parents": [f"{p}_ID{TASKS.index(p)}" for p in spec["parents"]],
            "children": [f"{c}_ID{TASKS.index(c)}" for c in spec["children"]],
            "files": [
                {"name": f, "link": link, "sizeInBytes" if units else "size": 7}
                for f, link in files
            ],
            "runtimeInSeconds" if units else "runtime": i + 0.5,
            "cores": 2,
            "memoryInBytes" if units else "memory": 5000 if units else 5,
        }
        if version == "1.0":
            entry["arguments"] = ["-x"]
        else:
            entry |= {"id": f"ID{i}", "command": {"program": task, "arguments": ["-x"]}}
        tasks.append(entry)
    key = "jobs" if version in ("1.0", "1.1", "1.2") else "tasks"
    return {
        "name": "diamond",
        "schemaVersion": version,
        "workflow": {"makespan": 3, "executedAt": "2020", key: tasks},
    }


VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6")


def document(version: str) -> Document:
    return split_document(version) if version in ("1.5", "1.6") else flat_document(version)


def as_bytes(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


DAX_2 = b"""<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="diamond" jobCount="4">
  <filename file="never-used" link="input"/>
  <job id="ID1" namespace="ns" name="split" version="1.0" runtime="13,93">
    <uses file="in" link="input" register="true" transfer="true" type="data" size="10"/>
    <uses file="a" link="output" register="false" size="20"/>
    <uses file="b" link="output" size="30"/>
  </job>
  <job id="ID2" name="left" runtime="1.5">
    <uses file="a" link="input" size="25"/><uses file="c" link="output" size="1"/>
  </job>
  <job id="ID3" name="right"><uses file="b" link="input"/><uses file="d" link="output"/></job>
  <job id="ID4" name="join" runtime="4"><uses file="c" link="input"/><uses file="d" link="inout"/>
  </job>
  <child ref="ID2"><parent ref="ID1"/></child>
  <child ref="ID3"><parent ref="ID1"/></child>
  <child ref="ID4"><parent ref="ID2"/><parent ref="ID3"/></child>
</adag>
"""

DAX_3 = b"""<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="3.6" name="diamond">
  <metadata key="size">ignored</metadata>
  <file name="f.a"><metadata key="size">1024</metadata><pfn url="file:///f.a" site="local"/></file>
  <file name="unused"><metadata key="size">9</metadata></file>
  <executable name="keg" installed="true"><pfn url="file:///keg"/></executable>
  <transformation name="keg"><uses name="keg"/></transformation>
  <job id="ID1" name="preprocess">
    <argument>-a "two words" -i <file name="f.a"/> -o <file name="f.b"/></argument>
    <profile namespace="pegasus" key="runtime">60</profile>
    <profile namespace="pegasus" key="cores">4</profile>
    <profile namespace="pegasus" key="memory">2</profile>
    <profile namespace="dagman" key="RETRY">3</profile>
    <stdout name="log" link="output"/>
    <uses name="f.a" link="input"/>
    <uses name="f.b" link="output" transfer="true"><metadata key="size">5</metadata></uses>
    <uses name="keg" namespace="diamond" executable="true"/>
  </job>
  <dax id="ID2" file="sub.dax"><uses name="f.b" link="input"/></dax>
  <dag id="ID3" file="sub.dag"/>
  <child ref="ID2"><parent ref="ID1"/></child>
  <child ref="ID3"><parent ref="ID2"/></child>
</adag>
"""

PEGASUS_YAML = b"""x-pegasus: {apiLang: python, createdBy: ann}
pegasus: '5.0.4'
name: diamond
replicaCatalog:
  replicas:
  - lfn: f.a
    pfns: [{site: local, pfn: /tmp/f.a}]
    metadata: {size: 77}
  - lfn: unused
    size: 9
jobs:
- type: job
  name: preprocess
  id: ID1
  stdout: log
  arguments: [-a, 'two words', -i, f.a]
  uses:
  - {lfn: f.a, type: input}
  - {lfn: f.b, type: output, size: "5", stageOut: true, registerReplica: false}
  - lfn: ckpt
    type: checkpoint
  profiles:
    pegasus: {runtime: 60, cores: '4', memory: 2}
    dagman: {RETRY: 3}
    env: {A: B}
- type: pegasusWorkflow
  file: sub.yml
  id: ID2
  arguments: []
  uses:
  - {lfn: f.b, type: input}
jobDependencies:
- id: ID1
  children: [ID2]
"""
