"""What can be known before a run: the critical path, and bounds that no schedule can beat."""

from dataward import critical_path, generate, makespan_bounds

workflow = generate("montage", tasks=1000, seed=7)
work = workflow.runtime_seconds.sum()
print(f"{workflow.name}: {len(workflow)} tasks, {work:.0f} s of work")

path = critical_path(workflow)
names = [workflow.task_names[task] for task in path.tasks]
print(f"critical path: {path.seconds:.1f} s: {' -> '.join(names)}")

print("nodes  lower bound  what bounds it")
for nodes in (1, 4, 16, 64):
    bounds = makespan_bounds(workflow, nodes=nodes, cores=4, bandwidth_bytes_per_second=125e6)
    print(f"{nodes:>5}  {bounds.best_seconds:>9.1f} s  {bounds.which}")
