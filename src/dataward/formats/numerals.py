"""Reads numbers in XML and YAML, where every value is text."""

import re

# No real quantity has more characters; Python refuses to convert more than 4,300 digits.
LENGTH_MAX = 40
_NUMERAL = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def parse_number(text: str) -> float | int | None:
    """The number a text denotes, or None. One comma is a decimal comma, as in ADAGE's traces."""
    if text.isascii() and text.isdigit() and len(text) <= LENGTH_MAX:
        return int(text)
    text = text.strip()
    if len(text) > LENGTH_MAX or not _NUMERAL.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text.replace(",", "."))
