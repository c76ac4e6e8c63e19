"""Programs and inputs that a Pegasus workflow's own catalogs place anywhere on this machine."""

from pathlib import Path

import pytest

from dataward import WorkflowBuilder
from runs.real_runs import OUTPUTS

PEGASUS = """
pegasus: '5.0.4'
name: catalogs
profiles: {{env: {{A: workflow, B: workflow, C: workflow, D: workflow}}}}
replicaCatalog:
  replicas:
  - lfn: in
    pfns: [{{site: far, pfn: 'gsiftp://far/in'}}, {{site: local, pfn: 'file://{data}/the%20input'}}]
  - lfn: other
    pfns: [{{site: anywhere, pfn: '{data}/other'}}]
  - {{lfn: 'i.*', regex: true, pfns: [{{site: local, pfn: /nowhere}}]}}
transformationCatalog:
  transformations:
  - {{name: join, version: '2', sites: [{{name: local, type: installed, pfn: /nowhere}}]}}
  - namespace: tools
    name: join
    version: '1'
    profiles: {{env: {{C: transformation, D: transformation}}}}
    sites:
    - {{name: far, type: installed, pfn: /nowhere/join}}
    - name: local
      type: stageable
      pfn: file://{data}/join.sh
      profiles: {{env: {{D: site}}}}
jobs:
- type: job
  namespace: tools
  version: '1'
  name: join
  id: a
  stdout: out
  uses: [{{lfn: in, type: input}}, {{lfn: other, type: input}}]
  arguments: [in, other]
  profiles: {{env: {{B: job, C: job, D: job}}}}
"""

DAX = """<adag name="catalogs">
<file name="in"><pfn url="gsiftp://far/in" site="far"/>
  <pfn url="file://{data}/the%20input" site="local"/></file>
<file name="other"><pfn url="{data}/other" site="anywhere"/></file>
<executable name="join" version="2"><pfn url="file:///nowhere" site="local"/></executable>
<executable namespace="tools" name="join" version="1" installed="false">
  <profile namespace="env" key="C">transformation</profile>
  <profile namespace="env" key="D">site</profile>
  <pfn url="file:///nowhere/join" site="far"/><pfn url="file://{data}/join.sh" site="local"/>
</executable>
<job id="a" namespace="tools" name="join" version="1">
  <argument><file name="in"/> <file name="other"/></argument>
  <profile namespace="env" key="A">workflow</profile>
  <profile namespace="env" key="B">job</profile>
  <profile namespace="env" key="C">job</profile>
  <stdout name="out" link="output"/>
  <uses name="in" link="input"/><uses name="other" link="input"/>
</job></adag>"""


@pytest.fixture
def data() -> Path:
    data = Path("elsewhere").absolute()
    data.mkdir()
    (data / "the input").write_text("in\n")
    (data / "other").write_text("other\n")
    (data / "join.sh").write_text('#!/bin/sh\ncat "$@"; echo $A $B $C $D\n')
    (data / "join.sh").chmod(0o755)
    return data


@pytest.mark.parametrize(("name", "text"), [("w.yml", PEGASUS), ("w.xml", DAX)])
def test_programs_and_inputs_are_where_the_catalogs_say(run, data, name, text):
    Path(name).write_text(text.format(data=data))

    end = run(Path(name))

    assert end.code == 0, end.reasons
    expected = "in\nother\nworkflow job transformation site\n"
    assert (OUTPUTS / "out").read_text() == expected


def test_catalogs_may_come_after_the_jobs(run, data):
    head, _, rest = PEGASUS.partition("replicaCatalog:")
    catalogs, _, jobs = rest.partition("jobs:")
    text = f"{head}jobs:{jobs}replicaCatalog:{catalogs}"
    Path("w.yml").write_text(text.format(data=data))

    end = run(Path("w.yml"))

    assert end.code == 0, end.reasons


def test_an_input_that_is_not_where_the_catalog_says_may_be_beside_the_workflow(run, data):
    Path("w.yml").write_text(PEGASUS.format(data=data))
    (data / "other").rename("other")

    end = run(Path("w.yml"))

    assert end.code == 0, end.reasons


def test_a_missing_input_was_looked_for_where_the_catalog_says(run, data):
    Path("w.yml").write_text(PEGASUS.format(data=data))
    (data / "other").unlink()

    end = run(Path("w.yml"), text=True)

    assert end.code == 3
    assert "'other'" in end.err
    assert str(data) in end.err.replace("\n", "")


def test_a_builder_may_say_where_a_file_is(run, data):
    wf = WorkflowBuilder("place")
    wf.file("in", path=str(data / "the input"))
    wf.file("other", path="elsewhere/other")
    wf.command("cat {inputs}", inputs=["in", "other"], stdout="out")

    end = run(wf)
    again = run(wf)

    assert (OUTPUTS / "out").read_text() == "in\nother\n"
    assert (end.counts, again.counts) == ((1, 0, 0, 0), (0, 1, 0, 0))


def test_containers_of_a_catalog_are_named_as_not_used(run, data):
    text = PEGASUS.format(data=data).replace("type: stageable", "container: box")
    Path("w.yml").write_text(text)

    end = run(Path("w.yml"), text=True)

    assert "container" in end.err
    assert "--wrap" in end.err
