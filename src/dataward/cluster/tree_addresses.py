"""Addresses of peers in the deadline tree: a host has one peer for each of its slots.

A host's number comes from its name, so that everybody knows every address by the list of members.
Peers of one host are neighbours in the tree.
"""

from collections.abc import Iterable

from blake3 import blake3

from dataward.deadlines.tree_messages import Address
from dataward.model.ids import NodeId
from dataward.model.members import Member

SLOT_BITS = 16
HOST_BYTES = 5  # among ten thousand hosts, two share a number in one cluster of 20,000


def address_of(node: NodeId, slot: int) -> Address:
    number = int.from_bytes(blake3(node.encode()).digest(HOST_BYTES), "big")
    return number << SLOT_BITS | slot


def slot_of(address: Address) -> int:
    return address & (1 << SLOT_BITS) - 1


def place_of(address: Address) -> Address:
    """The address of the first slot of a host: it stands for the host's files."""
    return address - slot_of(address)


def nodes_by_place(members: Iterable[Member]) -> dict[Address, NodeId]:
    return {address_of(member.node, 0): member.node for member in members}
