"""Which workflows ``dataward seeds`` runs."""

from enum import Enum


class Workflows(Enum):
    """Which workflows the seeds run."""

    APPLICATIONS = "applications"
    ODD = "odd"
    MIXED = "mixed"
