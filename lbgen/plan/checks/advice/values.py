"""Advice on values: variables of engines in place of placeholders, and pages that hold what clients sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engine_words import find_variable
from lbgen.plan.forwarding import REAL_IP
from lbgen.plan.values import Fact, read_placeholder
from lbgen.plan.written_texts import Place, written_texts

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.placeholders import Mention

_CHOSEN_BY_CLIENTS = (Fact.PATH, Fact.QUERY, Fact.URI, Fact.HEADER, Fact.COOKIE, Fact.CAPTURE, Fact.CERT_SUBJECT)


def check(context: Context) -> None:
    """LB295 on texts, LB299."""
    for text in written_texts(context.model):
        if (found := find_variable(text.text)) is None:
            continue
        variable, placeholder = found
        if placeholder == Fact.ENDPOINT and text.place is not Place.RESPONSE:
            placeholder = ""
        if placeholder or not text.field.endswith((".body", ".redirect.path", ".redirect.to", ".redirect_to")):
            hint = f"write {{{placeholder}}}" if placeholder else "write the value itself"
            if placeholder == Fact.CLIENT_IP and text.field.lower().endswith(f"request_headers.set.{REAL_IP}"):
                hint = "write forwarded_headers: { real_ip: true } and no edit"
            context.advise("LB295", text.field, f"{variable} is sent as it stands, as no variable is replaced", hint)
    _pages(context)


def _pages(context: Context) -> None:
    """Pages of HTML that show what a client sent: whoever makes a visitor follow a link writes the page."""
    for text in written_texts(context.model):
        if not text.media.lower().startswith(("text/html", "application/xhtml", "image/svg")):
            continue
        chosen = [x for x in text.mentions if _is_chosen(x)]
        if chosen:
            message = f"{{{chosen[0].name}}} is put into the page as the client sent it, markup and scripts included"
            context.advise("LB299", text.field, message, "answer with text/plain, or leave the value out")


def _is_chosen(mention: Mention) -> bool:
    return read_placeholder(mention).fact in _CHOSEN_BY_CLIENTS
