"""Repeats the papers' experiments in the simulator, and judges their claims by what comes out."""
