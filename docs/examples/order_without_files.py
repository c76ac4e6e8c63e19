"""Order that no file explains: `after=` names the tasks to wait for.

Shows also what a mistake looks like: the builder names the task or the cycle.
"""

from dataward import DatawardError, WorkflowBuilder

wf = WorkflowBuilder("nightly")
stop = wf.command("systemctl stop shop", id="stop")
backup = wf.command("pg_dump shop > {outputs}", id="backup", outputs=["shop.sql"], after=[stop])
check = wf.command(["sha256sum", "{inputs}"], id="check", inputs=["shop.sql"], retries=2)
wf.command("systemctl start shop", id="start", after=[backup])

workflow = wf.build()
for index, task in enumerate(workflow.task_ids):
    parents = [workflow.task_ids[p] for p in workflow.parents.row(index)]
    print(f"{task} waits for {', '.join(parents) or 'nothing'}")
print(workflow.task(workflow.index_of[check]).command)

wf.order("check", "stop")
try:
    wf.build()
except DatawardError as error:
    print(f"refused: {error}")
