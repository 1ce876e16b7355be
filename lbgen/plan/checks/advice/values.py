"""Advice on values: variables of engines in place of placeholders, and pages that hold what clients sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.plan.values import Fact, read_placeholder
from lbgen.plan.written_texts import Place, written_texts

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.placeholders import Mention

_VARIABLE = re.compile(
    r"\$\{?([a-z][a-z0-9_]+)\}?"  # nginx
    r"|%\[([^\]]*)\]"  # HAProxy
    r"|%([A-Z][A-Z0-9_]+(?:\([^)]*\))?)%"  # Envoy
    r"|%\{([A-Za-z][A-Za-z_:-]+)\}[a-z]?"  # Apache
)
_INSTEAD = {
    **dict.fromkeys(("remote_addr", "src", "DOWNSTREAM_REMOTE_ADDRESS", "REMOTE_ADDR"), "client_ip"),
    **dict.fromkeys(("binary_remote_addr", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT"), "client_ip"),
    **dict.fromkeys(("remote_port", "src_port", "DOWNSTREAM_REMOTE_PORT"), "client_port"),
    **dict.fromkeys(("scheme", "REQ(:SCHEME)", "REQUEST_SCHEME"), "scheme"),
    **dict.fromkeys(("host", "http_host", "REQ(:AUTHORITY)", "req.hdr(host)", "req.fhdr(host)", "HTTP_HOST"), "host"),
    **dict.fromkeys(("server_port", "dst_port", "SERVER_PORT"), "port"),
    **dict.fromkeys(("request_method", "method", "REQ(:METHOD)", "REQUEST_METHOD"), "method"),
    **dict.fromkeys(("uri", "document_uri", "path"), "path"),
    **dict.fromkeys(("args", "query_string", "query", "QUERY_STRING"), "query"),
    **dict.fromkeys(("request_uri", "pathq", "url", "REQ(:PATH)", "REQUEST_URI"), "uri"),
    **dict.fromkeys(("request_id", "unique-id", "REQ(X-REQUEST-ID)"), "request_id"),
    **dict.fromkeys(("ssl_server_name", "ssl_fc_sni", "REQUESTED_SERVER_NAME"), "server_name"),
    **dict.fromkeys(("upstream_addr", "UPSTREAM_HOST"), "endpoint"),
    **dict.fromkeys(("ssl_client_s_dn", "ssl_c_s_dn", "DOWNSTREAM_PEER_SUBJECT"), "client_cert.subject"),
    **dict.fromkeys(("ssl_client_fingerprint", "ssl_c_sha1,hex"), "client_cert.fingerprint"),
    **dict.fromkeys(("ssl_client_verify", "ssl_c_verify"), "client_cert.verified"),
}
_NAMED = (
    (re.compile(r"http_([a-z0-9_]+)|req\.f?hdr\(([^,)]+)\)|REQ\(([A-Za-z0-9-]+)\)"), "header"),
    (re.compile(r"cookie_([A-Za-z0-9_]+)|req\.cook\(([^,)]+)\)"), "cookie"),
)
_CHOSEN_BY_CLIENTS = (Fact.PATH, Fact.QUERY, Fact.URI, Fact.HEADER, Fact.COOKIE, Fact.CAPTURE, Fact.CERT_SUBJECT)


def check(context: Context) -> None:
    """LB295 on texts, LB299."""
    for text in written_texts(context.model):
        found = _VARIABLE.search(text.text)
        if found is None:
            continue
        placeholder = suggest_placeholder(next(filter(None, found.groups())))
        if placeholder or not text.field.endswith((".respond.body", ".redirect.path", ".redirect.to")):
            hint = f"write {{{placeholder}}}" if placeholder else "write the value itself"
            context.advise("LB295", text.field, f"{found[0]} is sent as it stands, as no variable is replaced", hint)
    _pages(context)


def suggest_placeholder(variable: str) -> str:
    """The placeholder for a variable of an engine, without its signs; "" where there is none."""
    if variable in _INSTEAD:
        return _INSTEAD[variable]
    for pattern, family in _NAMED:
        if found := pattern.fullmatch(variable):
            name = next(filter(None, found.groups()))
            return f"{family}.{name.lower().replace('_', '-') if family == 'header' else name}"
    return ""


def _pages(context: Context) -> None:
    """Pages of HTML that show what a client sent: whoever makes a visitor follow a link writes the page."""
    for text in written_texts(context.model):
        if text.place is not Place.BODY or text.route is None or not text.field.endswith(".body"):
            continue
        respond = context.model.routes[text.route].respond
        kind = "" if respond is None else respond.headers.get("content-type", "")
        if not kind.lower().startswith(("text/html", "application/xhtml", "image/svg")):
            continue
        chosen = [x for x in text.mentions if _is_chosen(x)]
        if chosen:
            message = f"{{{chosen[0].name}}} is put into the page as the client sent it, markup and scripts included"
            context.advise("LB299", text.field, message, "answer with text/plain, or leave the value out")


def _is_chosen(mention: Mention) -> bool:
    return read_placeholder(mention).fact in _CHOSEN_BY_CLIENTS
