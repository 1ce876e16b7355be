"""Sizes of requests and responses, and limits of them."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.conformance.http1_client import fetch
from lbgen.conformance.scripts.context import ScriptContext, behaving, get
from lbgen.plan.request import Request
from lbgen.runtime.standins.stand_in import Behaviour


def response_of_many_lines(ctx: ScriptContext) -> Iterator[str]:
    """A response of 150 header lines, about 3 KiB, reaches the client whole."""
    lines = tuple((f"x-line-{number}", str(number)) for number in range(150))
    with behaving(ctx, ctx.params["name"], Behaviour("fixed", headers=lines)):
        answer = fetch(ctx.at["web"], get("/"))
    if answer.status != 200:
        yield f"{answer.status} {answer.problem}, expected 200"
    elif lost := [name for name, value in lines if answer.header(name) != value]:
        yield f"{len(lost)} lines are missing or differ, {lost[0]} among them"


_ANY2 = Request(version="2")
