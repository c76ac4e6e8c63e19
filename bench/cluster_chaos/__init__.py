"""A cluster of real processes on this machine, hurt at random while it runs workflows."""
