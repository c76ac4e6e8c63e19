"""How peers leave the tree together, as all those of one machine do."""

from collections.abc import Mapping
from dataclasses import replace

from dataward.deadlines.tree_messages import Address, Appoint, GroupId, Send
from dataward.deadlines.tree_place import TreePlace


def goodbyes(places: Mapping[Address, TreePlace], now: float) -> list[Send]:
    """What peers send who leave at once: what they host goes to others, who know of each other."""
    sends = [send for place in places.values() for send in place.leave(now, places)]
    hosts: dict[Address | GroupId, Address] = {
        send.message.group: send.to for send in sends if isinstance(send.message, Appoint)
    }
    found = []
    for to, message in sends:
        if isinstance(message, Appoint):
            found.append(Send(to, _as_given(message, hosts, places)))
        elif to not in places:
            found.append(Send(to, message))
    return found


def _as_given(
    given: Appoint, hosts: Mapping[Address | GroupId, Address], gone: Mapping[Address, TreePlace]
) -> Appoint:
    """The group without leaves that are gone, and with the new hosts of groups next to it."""
    children = [
        child._replace(host=hosts.get(child.key, child.host))
        for child in given.children
        if child.key not in gone
    ]
    above = given.parent
    if above is not None:
        above = above._replace(host=hosts.get(above.group, above.host))
    return replace(given, children=children, parent=above)
