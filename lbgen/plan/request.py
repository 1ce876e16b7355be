"""Requests, and how the contract reads them: host, path, query and named values, or the status of a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from lbgen.diagnostics import counted
from lbgen.plan.paths import PathError, accept_target, path_to_match
from lbgen.plan.policy import Paths

_OWS = " \t"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_METHOD = re.compile(r"[A-Z][A-Z_-]*")
# A regex (PCRE, RE2, Go) for a Host line or an :authority: labels or an address in brackets, and a port up to 65535.
AUTHORITY = (
    r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?:[0-9]{0,4}|[1-5][0-9]{4}|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5])))))?"
)
_HOST = re.compile(AUTHORITY)
# RFC 9113 8.2.2: specific to connections of HTTP/1.1.
_HTTP1_ONLY = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
# What Connection may name. A client that names a header field there may be trying to strip one that proxies set.
_OPTIONS = frozenset(
    {"close", "keep-alive", "upgrade", "te", "trailer", "trailers", "http2-settings", "proxy-connection"}
)
_ABSOLUTE = re.compile(r"(?i:https?)://([^/?#]*)([^#]*)", re.DOTALL)
_QUERY_RAW = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?@!$'()*,")
_STRICT = Paths()

Headers = tuple[tuple[str, str], ...]


class Request(Struct, frozen=True):
    """One HTTP request as sent. `target` and header values are raw (latin-1 text, one character per byte);
    `headers` hold Host like any other line, in order. `listener` "" = the first L7 listener of the plan."""

    method: str = "GET"
    target: str = "/"
    headers: Headers = ()
    listener: str = ""
    client: str = "127.0.0.1"
    version: str = "1.1"  # 1.0, 1.1 or 2
    body: bytes = b""

    def __repr__(self) -> str:
        more = {"header": len(self.headers), "byte": len(self.body)}
        return f"<Request {self.method} {self.target} from {self.client}: {counted(more)}>"


class Draft(Struct, frozen=True):
    """A request in parts, before it is on the wire. Values are unencoded text."""

    method: str
    host: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()
    client: str = Request().client

    def request(self, listener: str) -> Request:
        """As a request to `listener`."""
        pairs = "&".join(f"{name}={encode_query(value)}" for name, value in self.query)
        headers = [("Host", self.host), *((n, to_wire(v)) for n, v in self.headers)]
        if self.cookies:
            headers.append(("Cookie", "; ".join(f"{n}={to_wire(v)}" for n, v in self.cookies)))
        target = self.path + (f"?{pairs}" if pairs else "")
        return Request(self.method, target, tuple(headers), listener, self.client)


def to_wire(text: str) -> str:
    """Text of the plan as sent: its UTF-8 bytes, one character for each byte."""
    return text.encode().decode("latin-1")


def encode_query(text: str) -> str:
    """A query value with everything escaped that delimits or may not stand there."""
    return "".join(c if c in _QUERY_RAW else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


class RefusedError(Exception):
    """The request is not well-formed: the proxy answers with `status`, or another of 4xx; `reason` is a sentence."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ParsedRequest(Struct, frozen=True):
    """`target` is in origin-form, as forwarded. `path` is its path, `matched_path` the path that rules compare. `host`
    is lower-case without port and trailing dot, `authority` is the Host line as sent; both None when absent. Header
    names are lower-case, values trimmed. `client` is the peer's address, or what trusted proxies say of it."""

    method: str
    target: str
    path: str
    matched_path: str
    query: str | None
    authority: str | None
    host: str | None
    headers: tuple[tuple[str, str], ...]
    client: str

    def lines(self, name: str) -> tuple[str, ...]:
        """The values of all header lines of that lower-case name."""
        return tuple(value for found, value in self.headers if found == name)

    def parameter(self, name: str) -> str | None:
        """The percent-decoded value of the first query pair of that name; None when there is none."""
        for pair in (self.query or "").split("&"):
            found, _, value = pair.partition("=")
            if pair and found == name:
                return unquote_to_bytes(value.encode("latin-1")).decode("latin-1")
        return None

    def cookie(self, name: str) -> str | None:
        """The value of the first cookie of that name, without its quotes; None when there is none."""
        for line in self.lines("cookie"):
            for pair in line.split(";"):
                found, equals, value = pair.strip(_OWS).partition("=")
                if equals and found == name:
                    quoted = len(value) > 1 and value[0] == value[-1] == '"'
                    return value[1:-1] if quoted else value
        return None


def parse_request(request: Request, paths: Paths = _STRICT) -> ParsedRequest:
    """Read `request` by the contract's order of checks; RefusedError with 400 or 405."""
    headers = tuple((name.lower(), value.strip(_OWS)) for name, value in request.headers)
    if request.version == "2":
        headers = _joined_cookies(headers)
    _check_head(request, headers)
    if not _METHOD.fullmatch(request.method):
        raise RefusedError(400, f"{request.method!r} is not a method")
    if request.method in ("TRACE", "CONNECT"):
        raise RefusedError(405, f"{request.method} is never served")
    authority = _authority(request, headers)
    try:
        target = accept_target(_origin_form(request.target, authority), paths)
    except PathError as error:
        raise RefusedError(400, str(error)) from None
    path, mark, query = target.partition("?")
    return ParsedRequest(
        request.method,
        target,
        path,
        path_to_match(path, paths),
        query if mark else None,
        authority,
        None if authority is None else host_of(authority),
        headers,
        request.client,
    )


def connection_options(lines: Iterable[str]) -> set[str]:
    """The options in Connection lines, in lower case."""
    return {token.strip(_OWS).lower() for line in lines for token in line.split(",")} - {""}


def host_of(authority: str) -> str:
    """`authority` in lower case, without port and one trailing dot; an IPv6 literal keeps its brackets."""
    text = authority.lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].removesuffix(".")


def _joined_cookies(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """HTTP/2 may send each cookie on a line of its own; HTTP/1.1 sees one line (RFC 9113 8.2.3)."""
    cookies = [value for name, value in headers if name == "cookie"]
    others = tuple(h for h in headers if h[0] != "cookie")
    return (*others, ("cookie", "; ".join(cookies))) if cookies else headers


def _check_head(request: Request, headers: tuple[tuple[str, str], ...]) -> None:
    if request.version not in ("1.0", "1.1", "2"):
        raise RefusedError(400, f"HTTP/{request.version} is not served")
    if request.version == "2":
        for name, value in headers:
            if name in _HTTP1_ONLY or (name == "te" and value.lower() != "trailers"):
                raise RefusedError(400, f"header {name} may not stand in HTTP/2")
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise RefusedError(400, f"{name!r} is not a header name")
        if _CONTROL.search(value):
            raise RefusedError(400, f"header {name} holds a control character")
        if name == "connection" and (odd := sorted(connection_options([value]) - _OPTIONS)):
            raise RefusedError(400, f"Connection names {odd[0]}")
    lengths = {value for name, value in headers if name == "content-length"}
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if len(lengths) > 1 or not all(re.fullmatch("[0-9]+", length) for length in lengths):
        raise RefusedError(400, "Content-Length is not one number")
    if codings and (lengths or codings != ["chunked"] or request.version == "1.0"):
        raise RefusedError(400, "Transfer-Encoding is ambiguous")


def _authority(request: Request, headers: tuple[tuple[str, str], ...]) -> str | None:
    hosts = [value for name, value in headers if name == "host"]
    if len(hosts) > 1:
        raise RefusedError(400, "several Host lines")
    if not hosts:
        raise RefusedError(400, f"HTTP/{request.version} without a host")
    if not _HOST.fullmatch(hosts[0]):
        raise RefusedError(400, f"Host {hosts[0]!r} is not a host")
    return hosts[0]


def _origin_form(target: str, authority: str | None) -> str:
    if target.startswith("/"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise RefusedError(400, "the target is neither origin-form nor absolute-form")
    if authority is None or absolute[1].lower() != authority.lower():
        raise RefusedError(400, "the target's host is not the Host line's")
    return absolute[2] if absolute[2].startswith("/") else "/" + absolute[2]
