"""Completion times according to SimGrid: problems as JSON on stdin, answers as JSON on stdout.

Run by the system's Python, which has Debian's python3-simgrid; it imports nothing of ours. SimGrid
allows one engine per process, so each problem is solved in a child.

A problem is {"capacity": [...], "flows": [{"links": [...], "start": s, "size": bytes}, ...]}; its
answer is the list of the flows' completion times. Each flow gets two machines of its own, joined by
exactly its links: SimGrid then shares the links and nothing else.
"""

import json
import os
import sys

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

# SimGrid corrects rates for what TCP does: smaller goodput, slow start, acknowledgements that
# compete with data, and long routes that get less. Here it is to share links max-min and no more.
CONFIGURATION = (
    "network/model:CM02",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
)


def completion_times(problem):
    engine = Engine(["referee", "--log=root.thresh:error", *(f"--cfg={c}" for c in CONFIGURATION)])
    zone = NetZone.create_full_zone("all")
    links = [
        zone.create_link(f"link-{index}", capacity).set_latency(0).seal()
        for index, capacity in enumerate(problem["capacity"])
    ]
    ends = [0.0] * len(problem["flows"])

    def send(index, source, target, flow):
        this_actor.sleep_until(flow["start"])
        Comm.sendto(source, target, flow["size"])
        ends[index] = Engine.clock

    for index, flow in enumerate(problem["flows"]):
        source = zone.create_host(f"source-{index}", 1e9)
        target = zone.create_host(f"target-{index}", 1e9)
        route = [LinkInRoute(links[link]) for link in flow["links"]]
        zone.add_route(source.netpoint, target.netpoint, None, None, route, False)
        Actor.create(f"flow-{index}", source, send, index, source, target, flow)
    zone.seal()
    engine.run()
    return ends


def in_child(problem):
    """What `completion_times` returns, from a process that is gone afterwards."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(completion_times(problem), pipe)
        # SimGrid's own teardown at exit is of no interest here.
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


if __name__ == "__main__":
    json.dump([in_child(problem) for problem in json.load(sys.stdin)], sys.stdout)
