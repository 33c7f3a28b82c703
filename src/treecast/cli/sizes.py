"""Sizes on the command line: numbers of bytes, or with K, M or G behind them."""

from __future__ import annotations

import argparse

FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """For argparse: at least 1.

    >>> size("64K")
    65536
    """
    return size_or_zero(text, least=1)


def size_or_zero(text: str, *, least: int = 0) -> int:
    """The same, but 0 is allowed."""
    digits, factor = (text[:-1], FACTORS[text[-1].upper()]) if text[-1:].upper() in FACTORS else (text, 1)
    if not digits.isascii() or not digits.isdigit() or int(digits) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write a number such as 4096, 64K or 1G")
    return int(digits) * factor
