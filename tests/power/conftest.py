"""Every test of this room runs in a plain place."""

from plain_place import a_plain_place

__all__ = ["a_plain_place"]
