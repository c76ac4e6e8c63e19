"""Lists every shape by name, and makes workflows from them."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from dataward.errors import SettingError
from dataward.generate import (
    all_pairs,
    coadd,
    cybershake,
    epigenomics,
    inspiral,
    matrix,
    montage,
    peercomp,
    sipht,
    stacking,
)
from dataward.generate.draws import random_state
from dataward.generate.shape import Draft, Parameter, Shape
from dataward.model.workflow import Workflow

SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        shape.name: shape
        for shape in (
            montage.SHAPE,
            cybershake.SHAPE,
            epigenomics.SHAPE,
            inspiral.SHAPE,
            sipht.SHAPE,
            matrix.BAG,
            matrix.FAN_IN,
            matrix.FAN_OUT,
            matrix.PIPELINE,
            stacking.SHAPE,
            all_pairs.SHAPE,
            coadd.SHAPE,
            peercomp.FORK_JOIN,
            peercomp.LAPLACE,
        )
    }
)

TASKS_MAX = 100_000_000


def generate(name: str, tasks: int, seed: int = 0, **parameters: float | str) -> Workflow:
    """A workflow of the named shape with ``tasks`` tasks, or the nearest number the shape allows.

    The same arguments give the same workflow everywhere. If the number of tasks differs from
    ``tasks``, the workflow's ``warnings`` say so.
    """
    shape = SHAPES.get(name)
    if shape is None:
        raise SettingError(f"there is no shape {name!r}; choose from {', '.join(SHAPES)}")
    values = _values(shape, parameters)
    if not shape.smallest <= tasks <= TASKS_MAX:
        raise SettingError(
            f"{name} cannot have {tasks} tasks; it can have {shape.granularity}"
            f" ({max(shape.smallest, min(tasks, TASKS_MAX))} is nearest)"
        )
    count = shape.nearest(tasks, values)
    draft = Draft(f"{name}-{count}")
    if count != tasks:
        draft.warn(f"{count} tasks instead of {tasks}: {name} comes in {shape.granularity}")
    shape.fill(draft, count, random_state(name, seed), values)
    assert len(draft) == count, f"{name} made {len(draft)} tasks of {count}"
    return draft.build()


def _values(shape: Shape, given: Mapping[str, float | str]) -> dict[str, float]:
    known = {parameter.name: parameter for parameter in shape.parameters}
    for name in given:
        if name not in known:
            there_is = f"it has {', '.join(known)}" if known else "it has none"
            raise SettingError(f"{shape.name} has no parameter {name!r}; {there_is}")
    return {
        name: _number(shape, parameter, given.get(name, parameter.default))
        for name, parameter in known.items()
    }


def _number(shape: Shape, parameter: Parameter, given: float | str) -> float:
    whole = isinstance(parameter.default, int)
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not parameter.low <= value <= parameter.high:
        problem = f"not a number from {parameter.low:g}"
    elif whole and value != int(value):
        problem = "not a whole number"
    else:
        return int(value) if whole else value
    if math.isfinite(parameter.high):
        problem += f" to {parameter.high:g}"
    raise SettingError(
        f"{shape.name}: {parameter.name} ({parameter.meaning}) is {given!r}, {problem}; "
        f"leave it out for {parameter.default:g}"
    )
