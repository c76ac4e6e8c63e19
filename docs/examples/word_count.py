"""A workflow of shell commands, joined by the files they pass on.

Commands are lines for the shell; `{inputs}` and `{outputs}` stand for the file names.
"""

from dataward import WorkflowBuilder, read_workflow, write_workflow

wf = WorkflowBuilder("word-count")
wf.file("book.txt", 1_200_000)

pieces = ["piece.aa", "piece.ab", "piece.ac"]
wf.command("split -n l/3 {inputs} piece.", inputs=["book.txt"], outputs=pieces)
for piece in pieces:
    wf.command(
        "tr -cs A-Za-z '\\n' < {inputs} | sort | uniq -c > {outputs}",
        name="count",
        inputs=[piece],
        outputs=[f"{piece}.counts"],
    )
wf.command(
    "awk '{n[$2] += $1} END {for (w in n) print n[w], w}' {inputs} | sort -rn > {outputs}",
    name="merge",
    inputs=[f"{piece}.counts" for piece in pieces],
    outputs=["words.txt"],
)

workflow = wf.build()
print(f"{len(workflow)} tasks, {workflow.edge_count} edges, {workflow.layers.depth} levels")
for index in workflow.layers.order:
    task = workflow.task(index)
    print(f"{task.id}: {' '.join(task.inputs)} -> {' '.join(task.outputs)}")

write_workflow(workflow, "word-count.json")
assert read_workflow("word-count.json") == workflow
print("saved and read back: the same workflow")
