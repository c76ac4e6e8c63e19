"""Promises of workflows in time, after PeerComp: holes, summaries of holes, reservations.

Celaya and Arronategui: Distributed Scheduler of Workflows with Deadlines in a P2P Desktop Grid.
"""
