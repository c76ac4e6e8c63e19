"""A link between two hosts that delays frames and loses some: a process between two devices.

``python bad_link.py ONE OTHER DELAY_SECONDS LOSS SEED`` makes two network devices of these names,
prints a line, and carries frames between them until it is killed. A kernel need not have netem.
"""

import fcntl
import heapq
import os
import select
import struct
import sys
import time
from itertools import count
from random import Random

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES_MAX = 65_536


def device(name: str) -> int:
    """The file by which the frames of a new device are read and written."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return file


def carry(one: int, other: int, delay_seconds: float, loss: float, random: Random) -> None:
    opposite, number = {one: other, other: one}, count()
    waiting: list[tuple[float, int, int, bytes]] = []
    while True:
        pause = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        readable, _, _ = select.select([one, other], [], [], pause)
        for file in readable:
            try:
                frame = os.read(file, FRAME_BYTES_MAX)
            except OSError:  # a device that is down
                continue
            if random.random() >= loss:
                due = time.monotonic() + delay_seconds
                heapq.heappush(waiting, (due, next(number), opposite[file], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(waiting)
            try:
                os.write(target, frame)
            except OSError:  # a full or a closed device loses it
                continue


def main() -> None:
    first, second, delay_seconds, loss, seed = sys.argv[1:]
    files = device(first), device(second)
    print("ready", flush=True)
    carry(*files, float(delay_seconds), float(loss), Random(seed))


if __name__ == "__main__":
    main()
