"""Parses and writes quantities: `250ms`, `16KiB`, `100/s`, `20%`."""

from __future__ import annotations

import re
from typing import NamedTuple

from lbgen.spec.value_errors import invalid, require_text, shorten, wrong_type

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_LONGEST_HOURS = 576  # 24 days: engines count milliseconds in 31 bits
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE_SECONDS = {"s": 1, "m": 60, "h": 3600}
_NUMBER_UNIT = re.compile(r"([0-9]{1,12})([A-Za-z]+)", re.ASCII)


class Rate(NamedTuple):
    """`amount` in `seconds`."""

    amount: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.amount}/{ {v: k for k, v in _RATE_SECONDS.items()}[self.seconds] }"


class StatusRange(NamedTuple):
    """Statuses from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def parse_duration(value: object) -> int:
    """`250ms 5s 1m 1h` in milliseconds; 0 = no limit; LB113 for anything else or more than 576h."""
    want = "a duration (250ms, 5s, 1m, 1h; 0s = no limit)"
    if isinstance(value, int | float) and not isinstance(value, bool):
        hint = f"write {value}s or {value}ms" if isinstance(value, int) and value >= 0 else _whole(f"{value}s")
        raise invalid("LB113", f"the number {value} has no unit", hint)
    found = _NUMBER_UNIT.fullmatch(require_text(want, value))
    if not found or found[2] not in _MILLISECONDS:
        hint = _whole(str(value)) or "write a whole number and ms, s, m or h, such as 250ms or 5s"
        raise invalid("LB113", f'"{shorten(str(value))}" is not a duration', hint)
    total = int(found[1]) * _MILLISECONDS[found[2]]
    if total > _LONGEST_HOURS * 3_600_000:
        raise invalid("LB113", f"{value} is above {_LONGEST_HOURS}h", "write 0s for no limit")
    return total


def _whole(written: str) -> str:
    """What to write for `1.5s` and `1h30m`."""
    parts = re.findall(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m|h)", written)
    if "".join(number + unit for number, unit in parts) != written or not parts:
        return ""
    total = sum((float(number) * _MILLISECONDS[unit] for number, unit in parts), 0.0)
    return f"write {write_duration(int(total))}" if total.is_integer() and total else ""


def write_duration(milliseconds: int) -> str:
    """The shortest text that `parse_duration` reads as so many milliseconds."""
    if milliseconds == 0:
        return "0s"
    unit = next(u for u in ("h", "m", "s", "ms") if milliseconds % _MILLISECONDS[u] == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def parse_size(value: object) -> int:
    """`512B 16KiB 10MiB 1GiB` in bytes; LB114 for anything else or for 1 TiB and more."""
    want = "a size (512B, 16KiB, 10MiB)"
    if isinstance(value, int) and not isinstance(value, bool):
        raise invalid("LB114", f"the number {value} has no unit", f"write {value}B for bytes, or KiB, MiB, GiB")
    found = _NUMBER_UNIT.fullmatch(require_text(want, value))
    if not found or found[2] not in _BYTES:
        shown = shorten(str(value))
        raise invalid("LB114", f'"{shown}" is not a size', "write a whole number and B, KiB, MiB or GiB, such as 16KiB")
    total = int(found[1]) * _BYTES[found[2]]
    if total >= 1 << 40:
        raise invalid("LB114", f"{value} is above 1023GiB")
    return total


def write_size(size: int) -> str:
    """The shortest text that `parse_size` reads as so many bytes."""
    unit = next(u for u in ("GiB", "MiB", "KiB", "B") if size % _BYTES[u] == 0)
    return f"{size // _BYTES[unit]}{unit}" if size else "0B"


def format_in_unit_of(value: object, bound: object) -> str:
    """`bound`, of the number that `value` was written for, written in the same kind of unit."""
    found = _NUMBER_UNIT.fullmatch(value) if isinstance(value, str) else None
    if found is None or not isinstance(bound, int):
        return str(bound)
    return write_size(bound) if found[2] in _BYTES else write_duration(bound)


def parse_rate(value: object) -> Rate:
    """`100/s`, `30/m`, `5/h`; LB124 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise invalid("LB124", f"the number {value} has no unit of time", f"write {value}/s, {value}/m or {value}/h")
    written = require_text("a rate (100/s, 30/m, 5/h)", value)
    found = re.fullmatch(r"([1-9][0-9]{0,8})/([smh])", written)
    if not found:
        hint = "write a whole number and /s, /m or /h, such as 100/s"
        if near := re.fullmatch(r"([1-9][0-9]{0,8}) ?(?:r|req|requests)? ?(?:/|per) ?(s|m|h)[a-z]*", written):
            hint = f"write {near[1]}/{near[2]}"
        raise invalid("LB124", f'"{shorten(written)}" is not a rate', hint)
    return Rate(int(found[1]), _RATE_SECONDS[found[2]])


def parse_percent(value: object) -> float:
    """`20%` or 20, from 0 to 100."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise wrong_type("a percentage (20% or 20)", value)
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,4})?%", value):
            raise invalid(
                "LB104", f'"{shorten(value)}" is not a percentage', "write a number from 0 to 100 and %, such as 20%"
            )
        value = float(value[:-1])
    if not 0 <= value <= 100:
        raise invalid("LB104", f"{value:g} is not between 0 and 100 percent")
    return float(value)


def parse_status_range(value: object) -> StatusRange:
    """`204` or `200-299`."""
    if isinstance(value, int) and not isinstance(value, bool):
        first = last = value
    else:
        found = re.fullmatch(r"([0-9]{3})-([0-9]{3})", require_text("a status or a range of statuses (200-299)", value))
        if not found:
            raise invalid("LB123", f'"{shorten(str(value))}" is not a range of statuses', "write 204 or 200-299")
        first, last = int(found[1]), int(found[2])
    if not 100 <= first <= last <= 599:
        raise invalid("LB123", f"{value} is not within 100-599, lower number first")
    return StatusRange(first, last)


def write_status_range(statuses: StatusRange) -> int | str:
    """What `parse_status_range` read."""
    return statuses.first if statuses.first == statuses.last else str(statuses)
