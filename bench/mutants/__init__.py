"""Whether the tests notice a broken line: some hundred lines are broken, one at a time.

`python -m bench mutants` draws them by a seed, runs for each the tests that reach it, and prints
how many were noticed and which were not. It takes an hour or so; stopped, it goes on where it was.
`python -m bench mutants --rooms stores --count 20` is a part of it.
"""
