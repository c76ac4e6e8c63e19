"""Where our strategy is worst: a search for small workflows and platforms on which others win.

`python -m bench.worst --minutes 10` anneals random instances, as PISA does (Coleman and
Krishnamachari, 2024), towards the largest ratio of our makespan to the best of the others'.
"""
