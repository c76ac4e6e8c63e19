"""What a task or a file may be called.

Names come from outside and end up on terminals, in file systems and in other programs' arguments.
"""

import re

from dataward.errors import BadNameError
from dataward.model.directories import without_slash

# Control characters garble terminals and split lines; lone surrogates cannot be written as UTF-8.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]+")  # most names; skips the slower checks below
LENGTH_MAX = 4096


def check_name(what: str, name: str) -> None:
    """Raise BadNameError unless the name can be printed and stored anywhere."""
    if name.isascii() and name.isprintable() and 0 < len(name) <= LENGTH_MAX:
        return
    if not name:
        raise BadNameError(what, name, "is empty")
    if len(name) > LENGTH_MAX:
        raise BadNameError(what, name, f"is longer than {LENGTH_MAX} characters")
    if match := _FORBIDDEN.search(name):
        raise BadNameError(what, name, f"contains the control character {match.group()!r}")


def stays_inside(file: str) -> bool:
    """Whether a file's name, taken as a path, stays within the directory it is resolved in."""
    if _PLAIN.fullmatch(file):
        return True
    file = without_slash(file)
    if file.startswith(("/", "\\", "~")) or re.match("[A-Za-z]:", file):
        return False
    parts = file.replace("\\", "/").split("/")
    return not any(part in ("", ".", "..") for part in parts)
