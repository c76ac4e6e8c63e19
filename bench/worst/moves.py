"""Random instances, and the moves that make another instance out of one."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from bench.worst.instance import Instance, NodeOf, TaskOf, rounded

TASKS = (4, 30)
NODES = (1, 6)
CORES_MAX = 4
INPUTS_MAX = 6
# Ranges that real clusters have, and in which neither latencies nor leases decide.
SECONDS = (1.0, 1000.0)
BYTES = (1e6, 2e10)
SPEED = (0.25, 4.0)
RATE = (1e7, 1.25e9)
STEP_MAX = 4.0  # the largest factor of one move

Range = tuple[float, float]
Move = Callable[[Random, Instance], Instance]


def random_instance(random: Random) -> Instance:
    """Some tasks in a random order of dependence, on a few nodes that differ."""
    inputs = tuple(int(_draw(random, BYTES)) for _ in range(random.randint(1, 4)))
    tasks: list[TaskOf] = []
    density = random.uniform(0.5, 2.5)  # parents of a task, on average
    for number in range(random.randint(6, 20)):
        tasks.append(_random_task(random, number, density, len(inputs)))
    nodes = tuple(_random_node(random) for _ in range(random.randint(2, 5)))
    copies = random.choice((0, 0, 1, 2))
    return Instance(
        tuple(tasks),
        inputs,
        nodes,
        _draw(random, RATE),
        min(copies, len(nodes)),
        random.randrange(9),
    )


def moved(random: Random, instance: Instance) -> Instance:
    """The instance after one move, or two or three now and then."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        instance = random.choices(MOVES, WEIGHTS)[0](random, instance)
    return instance


def _draw(random: Random, between: Range) -> float:
    low, high = between
    return rounded(low * (high / low) ** random.random())


def _scaled(random: Random, value: float, between: Range) -> float:
    factor = STEP_MAX ** random.uniform(-1, 1)
    return rounded(min(max(value * factor, between[0]), between[1]))


def _random_task(random: Random, number: int, density: float, inputs: int) -> TaskOf:
    parents = (
        sorted({random.randrange(number) for _ in range(round(random.expovariate(1 / density)))})
        if number
        else []
    )
    reads = () if parents and random.random() < 0.7 else (random.randrange(inputs),)
    return TaskOf(
        _draw(random, SECONDS), int(_draw(random, BYTES)), tuple(parents), reads,
        random.choice((1, 1, 1, 1, 2)),
    )  # fmt: skip


def _random_node(random: Random) -> NodeOf:
    return NodeOf(
        random.randint(1, CORES_MAX),
        _draw(random, SPEED),
        _draw(random, RATE),
        _draw(random, RATE),
    )


# --- moves ---------------------------------------------------------------------------------------


def _with_task(instance: Instance, at: int, task: TaskOf) -> Instance:
    return replace(instance, tasks=(*instance.tasks[:at], task, *instance.tasks[at + 1 :]))


def _with_node(instance: Instance, at: int, node: NodeOf) -> Instance:
    return replace(instance, nodes=(*instance.nodes[:at], node, *instance.nodes[at + 1 :]))


def _change_seconds(random: Random, instance: Instance) -> Instance:
    at = random.randrange(len(instance.tasks))
    task = instance.tasks[at]
    return _with_task(instance, at, replace(task, seconds=_scaled(random, task.seconds, SECONDS)))


def _change_output(random: Random, instance: Instance) -> Instance:
    at = random.randrange(len(instance.tasks))
    task = instance.tasks[at]
    size = int(_scaled(random, task.output_bytes, BYTES))
    return _with_task(instance, at, replace(task, output_bytes=size))


def _change_input(random: Random, instance: Instance) -> Instance:
    sizes = list(instance.inputs_bytes)
    at = random.randrange(len(sizes))
    sizes[at] = int(_scaled(random, sizes[at], BYTES))
    return replace(instance, inputs_bytes=tuple(sizes))


def _change_edge(random: Random, instance: Instance) -> Instance:
    """Add an edge between two tasks, or remove it if there is one."""
    first, last = sorted(random.sample(range(len(instance.tasks)), 2))
    task = instance.tasks[last]
    parents = tuple(sorted({first}.symmetric_difference(task.parents)))
    return _with_task(instance, last, replace(task, parents=parents))


def _change_reads(random: Random, instance: Instance) -> Instance:
    """Let a task read one more input, perhaps a new one, or one less."""
    at, count = random.randrange(len(instance.tasks)), len(instance.inputs_bytes)
    file = random.randrange(min(count + 1, INPUTS_MAX))
    if file == count:
        sizes = (*instance.inputs_bytes, int(_draw(random, BYTES)))
        instance = replace(instance, inputs_bytes=sizes)
    task = instance.tasks[at]
    inputs = tuple(sorted({file}.symmetric_difference(task.inputs)))
    return _with_task(instance, at, replace(task, inputs=inputs))


def _change_width(random: Random, instance: Instance) -> Instance:
    at = random.randrange(len(instance.tasks))
    cores = random.randint(1, min(3, instance.cores_max))
    return _with_task(instance, at, replace(instance.tasks[at], cores=cores))


def _add_task(random: Random, instance: Instance) -> Instance:
    count = len(instance.tasks)
    if count == TASKS[1]:
        return instance
    new = _random_task(random, count, 1.5, len(instance.inputs_bytes))
    return replace(instance, tasks=(*instance.tasks, new))


def _remove_task(random: Random, instance: Instance) -> Instance:
    """Remove a task; its children no longer wait for anything in its place."""
    if len(instance.tasks) == TASKS[0]:
        return instance
    gone = random.randrange(len(instance.tasks))
    tasks = [
        replace(task, parents=tuple(p - (p > gone) for p in task.parents if p != gone))
        for number, task in enumerate(instance.tasks)
        if number != gone
    ]
    return replace(instance, tasks=tuple(tasks))


def _change_speed(random: Random, instance: Instance) -> Instance:
    at = random.randrange(len(instance.nodes))
    node = instance.nodes[at]
    return _with_node(instance, at, replace(node, speed=_scaled(random, node.speed, SPEED)))


def _change_cores(random: Random, instance: Instance) -> Instance:
    at = random.randrange(len(instance.nodes))
    node = replace(instance.nodes[at], cores=random.randint(1, CORES_MAX))
    return _with_node(instance, at, node)


def _change_link(random: Random, instance: Instance) -> Instance:
    at = random.randrange(len(instance.nodes) + 1)
    if at == len(instance.nodes):
        rate = _scaled(random, instance.origin_bytes_per_second, RATE)
        return replace(instance, origin_bytes_per_second=rate)
    node = instance.nodes[at]
    if random.random() < 0.5:
        up = _scaled(random, node.up_bytes_per_second, RATE)
        return _with_node(instance, at, replace(node, up_bytes_per_second=up))
    down = _scaled(random, node.down_bytes_per_second, RATE)
    return _with_node(instance, at, replace(node, down_bytes_per_second=down))


def _change_nodes(random: Random, instance: Instance) -> Instance:
    """Add a node or remove one."""
    nodes = list(instance.nodes)
    if random.random() < 0.5 and len(nodes) < NODES[1]:
        nodes.insert(random.randint(0, len(nodes)), _random_node(random))
    elif len(nodes) > NODES[0]:
        del nodes[random.randrange(len(nodes))]
    return replace(instance, nodes=tuple(nodes), copies=min(instance.copies, len(nodes)))


def _change_placement(random: Random, instance: Instance) -> Instance:
    copies = random.randint(0, min(2, len(instance.nodes)))
    return replace(instance, copies=copies, seed=random.randrange(1000))


MOVES: tuple[Move, ...] = (
    _change_seconds, _change_output, _change_input, _change_edge, _change_reads, _change_width,
    _add_task, _remove_task, _change_speed, _change_cores, _change_link, _change_nodes,
    _change_placement,
)  # fmt: skip
WEIGHTS = (6, 6, 2, 4, 2, 1, 1, 2, 2, 1, 3, 1, 1)
