"""Opens and removes directories that tasks have written to, and left with any modes."""

import os
import stat
from contextlib import suppress


def remove_tree(top: str | os.PathLike[str]) -> None:
    """Remove a directory and everything in it, if it is there. Links are not followed.

    Nobody but root can list a directory that is not readable, or remove what is in one that is not
    writable; its owner can make it both first. Raises OSError if something is left, and even then
    removes all the rest.
    """
    import shutil  # not at once: most runner processes never need it, and should be there soon

    shutil.rmtree(top, ignore_errors=True)
    if os.path.lexists(top):
        open_directories(top)
        shutil.rmtree(top, ignore_errors=True)
    if os.path.lexists(top):
        shutil.rmtree(top)  # says what is wrong


def open_directories(top: str | os.PathLike[str]) -> None:
    """Let the owner list and change a directory and all below it, as far as that is possible."""
    found = [] if os.path.islink(top) else [os.fspath(top)]
    for directory in found:  # grows on the way
        with suppress(OSError):
            os.chmod(directory, stat.S_IRWXU)
            with os.scandir(directory) as entries:
                found += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
