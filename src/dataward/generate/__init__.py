"""Makes workflows of a given shape and size.

``generate`` makes a workflow, ``SHAPES`` lists the shapes, ``make_runnable`` gives every task a
real command, and ``write_inputs`` writes the files that such a workflow starts from.
"""

from dataward.generate.registry import SHAPES, generate
from dataward.generate.runnable import make_runnable, write_inputs
from dataward.generate.shape import Parameter, Shape

__all__ = ["SHAPES", "Parameter", "Shape", "generate", "make_runnable", "write_inputs"]
