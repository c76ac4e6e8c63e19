"""A fence around broken code: it sees only its own processes and writes only to its own place.

A line that ends stray processes or clears away old files, once broken, may end or clear away
anything of the user who runs the tests. So a mutant's tests run in namespaces of their own, which
are gone, with every process in them, as soon as the first process is.
"""

import os
import subprocess
from pathlib import Path

# What a mutant that only grows may take, before it fails.
DATA_KIB_MAX = 4 << 20
NO_FENCE = 125  # the exit code of a fence that cannot be put up

# The shell stays as the first process of its namespace, for it is the one orphans fall to: pytest
# would leave them as zombies, and tests see those. `$1` is the place that may be written to, `$2`
# one that may not. File systems that cannot be made read-only (/proc and the like) stay.
SCRIPT = f"""
place=$1 sources=$2
shift 2
mount --bind "$place" "$place" && mount -t tmpfs none /dev/shm || exit {NO_FENCE}
while read -r _ point _; do
    case $point in
    "$place" | /dev | /dev/* | /proc | /proc/* | /sys | /sys/*) ;;
    *) mount -o remount,bind,ro "$(printf %b "$point")" 2> /dev/null ;;
    esac
done < /proc/self/mounts
touch "$sources" 2> /dev/null && exit {NO_FENCE}
ulimit -d {DATA_KIB_MAX}
"$@"
exit $?
"""


def fenced(place: Path, sources: Path) -> list[str]:
    """The words before a command that let it write to ``place`` only, and never to ``sources``."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid():
        words += ["--user", "--map-root-user"]
    return [*words, "sh", "-c", SCRIPT, "fence", str(place), str(sources)]


def not_fenced(place: Path, sources: Path) -> list[str]:
    """For code that is known to be harmless however it is broken."""
    return []


def why_no_fence(place: Path, sources: Path) -> str:
    """The reason why there can be no fence on this machine, or ''."""
    try:
        done = subprocess.run([*fenced(place, sources), "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no unshare (Linux has it, in util-linux)"
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""
