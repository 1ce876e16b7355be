"""Scale the times in rendered files that a user has edited, and nothing else.

lbgen renders the plan twice, with its own times and with scaled ones. The two differ in numbers, and in lines for times
that are the engine's own in the first. A line of the user's file that is, or comes from, a line that differs gets the
scaled number. A number that the user has changed is scaled by the same ratio, so that what was changed stays changed.
"""

from __future__ import annotations

import difflib
import re

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.api import split_lines
from lbgen.engines.rendered import Rendered, render_with
from lbgen.plan.features import Feature
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_version
from lbgen.runtime.local.messages import EngineChoice

NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(us|ms|s|m|h|d)?(?![\w.])")
_TIME_ALONE = re.compile(r"\s*[\w-]+[: ] *\d+(?:\.\d+)?(?:us|ms|s|m|h|d);?")
_MILLISECONDS = re.compile(r"\d+ms\b")
_UNITS = {"us": 0.001, "": 1.0, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}


class LineChange(Struct, frozen=True):
    """A line that differs between two renderings: how it really is, and how it is verified. `line` counts from 1."""

    file: str
    line: int
    real: str
    verified: str


def _shape(line: str) -> str:
    return NUMBER.sub("\0", line)


def line_changes(real: Rendered, verified: Rendered) -> tuple[LineChange, ...]:
    """Lines that differ; ValueError when anything but numbers differs, with the place."""
    if list(real) != list(verified):
        raise ValueError(f"{real.engine}: other files with scaled times: {sorted(set(real) ^ set(verified))}")
    found = []
    for name, text in real.items():
        try:
            pairs = zip(split_lines(text), _lines_by_line(text, verified[name]), strict=True)
        except ValueError as error:
            raise ValueError(f"{real.engine}/{name}: {error}") from error
        for number, (one, other) in enumerate(pairs, 1):
            if one != other:
                if _shape(one) != _shape(other.partition("\n")[0]):
                    raise ValueError(f"{real.engine}/{name}:{number}: {one.strip()!r} and {other.strip()!r}")
                found.append(LineChange(name, number, one.strip(), other.strip()))
    return tuple(found)


def _lines_by_line(real: str, verified: str) -> list[str]:
    """For each line of `real` what stands for it in `verified`: a line, and lines behind it that hold a time alone and
    are left out where the time is the engine's own. ValueError when other lines are there."""
    ours, theirs = split_lines(real), split_lines(verified)
    if len(ours) == len(theirs):
        return theirs
    shapes = [_shape(line) for line in ours], [_shape(line) for line in theirs]
    found: list[str] = []
    for tag, _, _, c, d in _blocks(*shapes):
        if tag == "equal":
            found += theirs[c:d]
        elif tag == "insert" and found and all(_TIME_ALONE.fullmatch(line) for line in theirs[c:d]):
            found[-1] = "\n".join((found[-1], *theirs[c:d]))
        else:
            raise ValueError(f"{len(ours)} lines, {len(theirs)} with scaled times")
    return found


def with_verified_times(mine: Rendered, real: Rendered, verified: Rendered) -> Rendered:
    """`mine`, a user's version of `real`, with the times of `verified`; ValueError as `line_changes`."""
    if not line_changes(real, verified):
        return mine
    files = [
        replace(file, text=_merge(file.text, real[file.name], verified[file.name])) if file.name in real else file
        for file in mine.files
    ]
    return mine.with_files(files)


def user_edits(mine: Rendered, real: Rendered) -> tuple[str, ...]:
    """Where a user's files are not what lbgen renders: `file:line: text`, at most one place a block."""
    found = []
    for name in dict.fromkeys((*real, *mine)):
        if name not in mine or name not in real:
            found.append(f"{name}: {'is missing' if name not in mine else 'is not one of lbgen'}")
            continue
        ours, theirs = split_lines(mine[name]), split_lines(real[name])
        for tag, a, b, _, _ in _blocks(ours, theirs):
            if tag != "equal":
                shown = ours[a].strip() if a < b else "(a line is missing)"
                found.append(f"{name}:{a + 1}: {shown}")
    return tuple(found)


def _blocks(ours: list[str], theirs: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Opcodes of difflib. What both begin and end with is not compared further: where lines repeat, as those of routes
    do, that takes time in the square of their number."""
    head = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    most = min(len(ours), len(theirs)) - head
    pairs = zip(reversed(ours), reversed(theirs), strict=False)
    tail = next((n for n, (a, b) in enumerate(pairs) if n == most or a != b), most)
    a, b = len(ours) - tail, len(theirs) - tail
    inner = difflib.SequenceMatcher(None, ours[head:a], theirs[head:b], autojunk=False).get_opcodes()
    moved = ((tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in inner)
    whole = [("equal", 0, head, 0, head), *moved, ("equal", a, len(ours), b, len(theirs))]
    return [
        block for block in whole if block[1:] != (head, head, head, head) and block[1] + block[3] < block[2] + block[4]
    ]


def _merge(mine: str, real: str, verified: str) -> str:
    base, goal = split_lines(real), _lines_by_line(real, verified)
    ours = split_lines(mine)
    known: dict[str, set[str]] = {}
    for one, other in zip(base, goal, strict=True):
        known.setdefault(one, set()).add(other)
    out = list(ours)
    fine = _MILLISECONDS.search(verified) is not None
    for tag, a, b, c, d in _blocks(ours, base):
        for at in range(a, b):
            if tag == "equal":
                out[at] = goal[c + at - a]
            elif len(found := known.get(ours[at], set())) == 1:  # a line that was moved
                out[at] = next(iter(found))
            elif near := _nearest(ours[at], range(c, d), base, a, at, c):
                out[at] = _rescaled(ours[at], base[near - 1], goal[near - 1].partition("\n")[0], fine=fine)
    ending = "\n" if mine.endswith("\n") else ""
    return "\n".join(out) + ending


def _nearest(line: str, among: range, base: list[str], a: int, at: int, c: int) -> int:
    """The line (from 1) of `base` that `line` was made from, by its words; 0 when there is none."""
    same = [n for n in among if _shape(base[n]) == _shape(line)]
    if not same:
        return 0
    return min(same, key=lambda n: abs((n - c) - (at - a))) + 1


def _rescaled(line: str, real: str, verified: str, *, fine: bool) -> str:
    """`line` with each of its numbers in the ratio in which `verified` stands to `real`. `fine`: the file has numbers
    in ms, so that parts of a second are written like that."""
    pairs = iter(list(zip(NUMBER.finditer(real), NUMBER.finditer(verified), strict=True)))

    def change(found: re.Match[str]) -> str:
        ours, theirs = next(pairs)
        if ours[0] == theirs[0]:
            return found[0]
        if found[0] == ours[0]:
            return theirs[0]
        before = float(ours[1]) * _UNITS[ours[2] or ""]
        after = float(theirs[1]) * _UNITS[theirs[2] or ""]
        value = float(found[1]) * _UNITS[found[2] or ""] * after / (before or 1)
        unit = theirs[2] or ""
        if fine and unit == "s" and value % 1000:
            unit = "ms"
        value /= _UNITS[unit]
        return f"{value:.3f}{unit}" if "." in theirs[1] or (unit == "s" and value % 1) else f"{round(value)}{unit}"

    return NUMBER.sub(change, line)


def has_same_shape(chosen: EngineChoice, real: Plan, shorter: Plan) -> bool:
    """Whether the engine's files for both plans differ in numbers only, and it objects to the same fields."""
    if _objections(chosen, real) != _objections(chosen, shorter):
        return False
    try:
        line_changes(render_for(chosen, real), render_for(chosen, shorter))
    except ValueError:
        return False
    return True


def render_for(chosen: EngineChoice, plan: Plan) -> Rendered:
    """The files of `plan` for the engine, its version and its DNS servers; every verdict is accepted."""
    plan = with_version(replace(plan, resolvers=chosen.resolvers), chosen.name, chosen.version)
    return render_with(chosen.engine, plan, chosen.version, ("all",))


def _objections(chosen: EngineChoice, plan: Plan) -> list[tuple[str, Feature | None]]:
    return [(each.field, each.feature) for each in chosen.engine.objections(plan, chosen.version)]
