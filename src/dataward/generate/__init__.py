"""Workflows made to a shape and a size, and made to run.

``generate`` makes one, ``SHAPES`` lists what there is, ``make_runnable`` gives every task a real
command and ``write_inputs`` makes the files such a workflow starts from.
"""

from dataward.generate.registry import SHAPES, generate
from dataward.generate.runnable import make_runnable, write_inputs
from dataward.generate.shape import Parameter, Shape

__all__ = ["SHAPES", "Parameter", "Shape", "generate", "make_runnable", "write_inputs"]
