"""Every test runs in an empty directory."""

from plain_place import a_plain_place

__all__ = ["a_plain_place"]
