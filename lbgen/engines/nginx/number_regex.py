"""Comparison of numbers by regexes, since nginx compares texts only."""

from __future__ import annotations


def above(limit: int) -> str:
    """A regex of the decimal numbers above `limit`, leading zeros allowed."""
    digits = str(limit)
    ways = [f"[1-9][0-9]{{{len(digits)},}}"]
    for at, digit in enumerate(digits):
        if digit != "9":
            rest = len(digits) - at - 1
            first = "9" if digit == "8" else f"[{int(digit) + 1}-9]"
            ways.append(digits[:at] + first + (f"[0-9]{{{rest}}}" if rest else ""))
    return f"0*(?:{'|'.join(ways)})"
