"""Names of files that stand for whole directories, as ``results/``: names and contents as one.

Runner processes load this module, so it imports nothing.
"""


def is_directory(file: str) -> bool:
    """Whether a file's name stands for a directory."""
    return file.endswith("/")


def without_slash(file: str) -> str:
    """A file's name as a path, also if it stands for a directory."""
    return file.removesuffix("/")
