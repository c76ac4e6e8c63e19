"""Lays what a power cut has left into a real directory, and tells what is in a real one."""

import os
import shutil
import stat
from pathlib import Path

import msgspec

from dataward.errors import FormatError
from dataward.runs import input_digests
from dataward.stores.journal import Journal
from power.disk import Tree

Listing = dict[str, tuple[str, int, bytes, str, str]]
"""By path: kind, mode, content, a link's target, and the first name that the same file has."""


def lay_out(tree: Tree, root: Path) -> None:
    """Put the tree in the place of everything that is in the directory."""
    for entry in os.scandir(root):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    first: dict[int, Path] = {}
    for name, left in tree.items():
        path = root / name
        if left.item in first:
            os.link(first[left.item], path, follow_symlinks=False)
        elif left.kind == "directory":
            path.mkdir()
        elif left.kind == "link":
            path.symlink_to(left.target)
        else:
            path.write_bytes(left.content)
        first.setdefault(left.item, path)
    inodes = {left.inode: (root / name).lstat().st_ino for name, left in tree.items()}
    for name, left in reversed(tree.items()):  # a directory after what is in it
        if left.kind != "link":
            (root / name).chmod(left.mode)
            os.utime(root / name, ns=(left.modified_ns, left.modified_ns))
        if name.endswith(".run/digests"):
            _renumber(root / name, inodes)


def _renumber(path: Path, inodes: dict[int, int]) -> None:
    """Have remembered digests tell the new numbers of files, which on a real disk stay the same."""
    try:
        journal = Journal(path)
        (payload,) = journal.frames()
        journal.close()
    except (FormatError, ValueError):
        return  # it did not survive
    version, remembered = msgspec.msgpack.decode(
        payload, type=tuple[int, dict[bytes, tuple[tuple[int, int, int], str, str]]]
    )
    assert version == input_digests.VERSION
    changed = {
        key: ((size, time, inodes.get(inode, inode)), digest, until)
        for key, ((size, time, inode), digest, until) in remembered.items()
    }
    payload = msgspec.msgpack.encode((version, changed))
    Journal.create(path, [payload]).close()


def listing(root: Path) -> Listing:
    """Everything below a directory."""
    found: Listing = {}
    first: dict[int, str] = {}
    for place, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(place, name)
            shown, status = str(path.relative_to(root)), path.lstat()
            mode = stat.S_IMODE(status.st_mode)
            first[status.st_ino] = min(first.get(status.st_ino, shown), shown)
            if path.is_symlink():
                found[shown] = "link", mode, b"", os.readlink(path), str(status.st_ino)
            elif path.is_dir():
                found[shown] = "directory", mode, b"", "", str(status.st_ino)
            else:
                found[shown] = "file", mode, path.read_bytes(), "", str(status.st_ino)
    return {
        path: (kind, mode, content, target, first[int(inode)])
        for path, (kind, mode, content, target, inode) in found.items()
    }


def listing_of(tree: Tree) -> Listing:
    """The same for what a power cut has left."""
    first: dict[int, str] = {}
    for path, left in tree.items():
        first[left.item] = min(first.get(left.item, path), path)
    return {
        path: (left.kind, left.mode, left.content, left.target, first[left.item])
        for path, left in tree.items()
    }
