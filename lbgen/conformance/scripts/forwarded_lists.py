"""Lists in X-Forwarded-For of trusted proxies, however they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import ClientConnection
from lbgen.conformance.own_answers import account_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.context import ScriptContext

_SECONDS = 5.0


def forwarded_lists(ctx: ScriptContext) -> Iterator[str]:
    """The endpoint gets the elements that came, in order, and behind them the peer; empty ones do not count."""
    for lines in ctx.params["lists"]:
        fields = "".join(f"X-Forwarded-For:{line}\r\n" for line in lines)
        with ClientConnection(ctx.at[ctx.params["listener"]], timeout=_SECONDS) as stream:
            stream.send(f"GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n".encode("latin-1"))
            answer = stream.read_answer()
        account = account_of(answer)
        if account is None:
            yield f"{lines}: status {answer.status}, from no endpoint"
            continue
        arrived = [value for name, value in account["headers"] if name.lower() == "x-forwarded-for"]
        if len(arrived) != 1 or _elements(arrived) != [*_elements(lines), "127.0.0.1"]:
            yield f"{lines}: the endpoint got {arrived}"


def _elements(lines: list[str]) -> list[str]:
    return [element.strip(" \t") for element in ",".join(lines).split(",") if element.strip(" \t")]
