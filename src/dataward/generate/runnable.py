"""Gives real commands to workflows that have none, and writes the files they start from.

A task's command needs only ``python3``: it reads all inputs, uses the processor for the task's run
time and writes the outputs at their sizes. The bytes it writes depend on the contents and names of
its inputs and the name of the output, so one wrong byte changes all results that depend on it.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dataward.errors import BadNameError, OutputError, SettingError
from dataward.model.builder import WorkflowBuilder
from dataward.model.names import stays_inside
from dataward.model.runnable import as_run
from dataward.model.workflow import Bytes, Command, Workflow

CHUNK_BYTES = 1 << 20

# The arguments are: seconds, the number of input words, input words, output:size ... An input word
# that begins with a slash stands for a run of numbered files (see ``input_words``). Time is
# processor time, so that a busy machine does not shorten the work. The script is short because it
# is saved with every task.
SCRIPT = """\
import os,sys,time,hashlib as H
a=sys.argv
n=int(a[2])+3
h=H.blake2b()
def r(w):
 if w[0]!='/':return[w]
 _,s,c,d,p,t=w.split('/',5)
 return[t[:int(p)]+str(i).zfill(int(d))+t[int(p):]for i in range(int(s),int(s)+int(c))]
for w in a[3:n]:
 for f in r(w):
  k=0
  with open(f,'rb')as i:
   while b:=i.read(1<<20):h.update(b);k+=len(b)
  h.update(b'%d/%s;'%(k,os.fsencode(f)))
g=h.digest()
e=time.process_time()+float(a[1])
while time.process_time()<e:0
for w in a[n:]:
 f,s=w.rsplit(':',1)
 d=os.path.dirname(f)
 if d:os.makedirs(d,exist_ok=True)
 s=int(s)
 with open(f,'wb')as o:
  for k in range(0,s,1<<20):o.write(H.shake_128(g+b'%d/'%k+os.fsencode(f)).digest(min(s-k,1<<20)))
"""
INTERPRETER = ("python3", "-I", "-S", "-c", SCRIPT)  # isolated and without site: starts faster

# With more inputs than this, runs of numbered names are shortened: a command may have some 2 MB of
# arguments, which the inputs of mConcatFit reach in a Montage of 60,000 tasks.
PLAIN_INPUTS_MAX = 256
RUN_MIN = 3
_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)", re.DOTALL)


def make_runnable(workflow: Workflow, time_scale: float = 1.0, data_scale: float = 1.0) -> Workflow:
    """The same workflow with a command for every task; run times and sizes are scaled.

    A file that was not empty keeps at least one byte. Existing commands are replaced.
    """
    for name, scale in (("time scale", time_scale), ("data scale", data_scale)):
        if not (math.isfinite(scale) and scale >= 0):
            raise SettingError(f"{name} {scale!r} is not a number from 0")
    sizes = _scaled(workflow.size_bytes, data_scale)
    run_times = workflow.runtime_seconds * time_scale
    built = _with_commands(workflow, run_times.tolist(), sizes.tolist())
    return as_run(built, lambda file: True)


def _scaled(sizes: Bytes, scale: float) -> Bytes:
    scaled = np.rint(sizes * scale).astype(np.int64)
    return np.where(sizes > 0, np.maximum(scaled, 1), 0)


def _with_commands(
    workflow: Workflow, run_times: Sequence[float], sizes: Sequence[int]
) -> Workflow:
    builder = WorkflowBuilder(workflow.name)
    for file, size in zip(workflow.file_ids, sizes, strict=True):
        builder.file(file, size)
    ids, files = workflow.task_ids, workflow.file_ids
    reads, writes, parents = (
        joined.rows() for joined in (workflow.inputs, workflow.outputs, workflow.parents)
    )
    cores, memory = workflow.cores.tolist(), workflow.memory_bytes.tolist()
    retries = workflow.retries.tolist()
    for i, (read, written, above) in enumerate(zip(reads, writes, parents, strict=True)):
        inputs = [files[f] for f in read]
        outputs = [f"{files[f]}:{sizes[f]}" for f in written]
        builder.task(
            ids[i],
            name=workflow.task_names[i],
            command=_command(run_times[i], inputs, outputs),
            inputs=inputs,
            outputs=[files[f] for f in written],
            after=[ids[parent] for parent in above],
            runtime_seconds=run_times[i],
            cores=cores[i],
            memory_bytes=memory[i],
            retries=None if retries[i] < 0 else retries[i],
        )
    return builder.build()


def _command(seconds: float, inputs: Sequence[str], outputs: Sequence[str]) -> Command:
    words = input_words(inputs)
    return (*INTERPRETER, f"{seconds:.6g}", str(len(words)), *words, *outputs)


def input_words(inputs: Sequence[str]) -> list[str]:
    """The command's words for its inputs: their names, or one word for a run of numbered names.

    ``/7/3/4/2/p_.txt`` stands for p_0007.txt, p_0008.txt and p_0009.txt: the numbers from 7, three
    of them, with four digits, inserted after two characters of ``p_.txt``. No file of a runnable
    workflow has a name that starts with a slash.
    """
    if len(inputs) <= PLAIN_INPUTS_MAX:
        return list(inputs)
    words: list[str] = []
    i = 0
    while i < len(inputs):
        run = _run_length(inputs, i)
        words.extend([_run_word(inputs[i], run)] if run >= RUN_MIN else inputs[i : i + run])
        i += run
    return words


def _run_length(inputs: Sequence[str], start: int) -> int:
    """How many names, from ``start`` on, differ only in a number that increases by one."""
    match = _NUMBERED.fullmatch(inputs[start])
    if not match:
        return 1
    before, digits, after = match.groups()
    length = 1
    while (
        start + length < len(inputs)
        and inputs[start + length] == f"{before}{int(digits) + length:0{len(digits)}d}{after}"
    ):
        length += 1
    return length


def _run_word(first: str, count: int) -> str:
    match = _NUMBERED.fullmatch(first)
    assert match is not None, "only numbered names form runs"
    before, digits, after = match.groups()
    return f"/{int(digits)}/{count}/{len(digits)}/{len(before)}/{before}{after}"


def write_inputs(workflow: Workflow, directory: Path) -> list[Path]:
    """Write every file that no task makes, at its size, and return the paths.

    The contents depend only on the names. Nothing is written if a name would lead out of the
    directory.
    """
    made = workflow.producers.degrees() > 0
    wanted = np.flatnonzero(~made).tolist()
    for number in wanted:
        if not stays_inside(workflow.file_ids[number]):
            raise BadNameError("file", workflow.file_ids[number], "is not a plain relative path")
    paths = []
    for number in wanted:
        name = workflow.file_ids[number]
        path = directory / name
        _write(path, name, int(workflow.size_bytes[number]))
        paths.append(path)
    return paths


def _write(path: Path, name: str, size: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for chunk in _contents(name, size):
                file.write(chunk)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


def _contents(name: str, size: int) -> Iterator[bytes]:
    for start in range(0, size, CHUNK_BYTES):
        seed = f"dataward input {start}/{name}".encode()
        yield hashlib.shake_128(seed).digest(min(size - start, CHUNK_BYTES))
