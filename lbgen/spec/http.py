"""Parses paths, header names and values, methods and statuses into canonical forms."""

from __future__ import annotations

import re
from unicodedata import category
from urllib.parse import quote

from lbgen.spec.foreign_terms import CAUSES
from lbgen.spec.network import parse_plain_host
from lbgen.spec.placeholders import Mention, has_placeholder, split_text
from lbgen.spec.value_errors import invalid, require_text, shorten, wrong_type

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PATH_CHARS = re.compile(r"[A-Za-z0-9._~:/\[\]@!$&'()*+,;=%-]*")
_QUERY_NAME = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$'()*+,;%-]+")
_QUERY = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
FRAMING = frozenset(
    ("connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
NOT_OF_CLIENTS = FRAMING | {
    *("host", "cookie", "authorization", "x-request-id"),
    *("x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"),
}
_PLAIN_NAME = re.compile(r"[a-z0-9-]+")
_ORIGIN = re.compile(r"[*]|null|[a-z][a-z0-9+.-]*://(([*][.])?[a-z0-9._-]+|\[[0-9a-f:.]+\])(:([0-9]{1,5}|[*]))?")


def parse_path(value: object) -> str:
    """A path that strict paths accept, escapes in upper-case hex; LB117 otherwise."""
    path = require_text("a path", value)
    if not path.startswith("/"):
        raise invalid("LB117", f'"{shorten(path)}" is not a path', f"write /{shorten(path)}" if path else "write /")
    if "?" in path:
        raise invalid(
            "LB117", f'"{shorten(path)}" has a query', "a path ends before the ?; match parameters with query:"
        )
    if "#" in path:
        raise invalid("LB117", f'"{shorten(path)}" has a fragment', "clients do not send what follows a #")
    if not _PATH_CHARS.fullmatch(path):
        escaped = quote(path, safe="/:@!$&'()*+,;=%[]", errors="replace")
        hint = f"write {shorten(escaped, 200)}"
        if re.search(r"\{[A-Za-z_][A-Za-z0-9_]*\}", path):
            hint = "for any text in its place write regex: with [^/]+; for the character itself %7B and %7D"
        raise invalid("LB117", f'"{shorten(path)}" has characters that a URI cannot have', hint)
    path = _ESCAPE.sub(_checked_escape, path)
    segments = path.split("/")
    if any(segment in (".", "..") for segment in segments):
        raise invalid(
            "LB117",
            f'"{shorten(path)}" has a dot segment, which strict paths answer with 400',
            "write the path it leads to",
        )
    if "" in segments[1:-1]:
        hint = f"write {shorten(re.sub('/+', '/', path), 200)}"
        raise invalid("LB117", f'"{shorten(path)}" has an empty segment, which strict paths answer with 400', hint)
    return path


def parse_target(value: object) -> str:
    """A path and, if wanted, a query; LB117 otherwise."""
    path, mark, query = require_text("a path", value).partition("?")
    if not _QUERY.fullmatch(query):
        raise invalid("LB117", f'"{shorten(query)}" has characters that a query cannot have', "percent-encode them")
    return parse_path(path) + mark + query


def parse_path_with_placeholders(value: object) -> str:
    """A path in which placeholders may stand; LB117 otherwise."""
    text = require_text("a path", value)
    found = list(split_text(text))
    if not any(isinstance(part, Mention) for part in found):
        return parse_path(text)
    # A mark that paths may have and no topology does stands for each placeholder.
    marks = {f"~{number}lbgen~": part.name for number, part in enumerate(found) if isinstance(part, Mention)}
    names = iter(marks)
    path = parse_path("".join(part if isinstance(part, str) else next(names) for part in found))
    for mark, name in marks.items():
        path = path.replace(mark, f"{{{name}}}")
    return path


_AUTHORITY_PARTS = ("host", "server_name", "port")
_ADDRESS = re.compile(r"(?:https?|\{scheme\})://([^/?#]+)(.*)", re.DOTALL)
_WRITTEN_AUTHORITY = re.compile(r"(?:[A-Za-z0-9_.-]|\{[^{}]+\}|\[[0-9A-Fa-f:.]+\])+(?::(?:[0-9]{1,5}|\{port\}))?")
_ADDRESS_REST = re.compile(r"[!-;=?-\[\]_a-~]*")


def parse_location(value: object) -> str:
    """An absolute address in which placeholders may stand; LB117 otherwise.

    Nothing of a request may change the host: the authority holds text, `{host}`, `{server_name}`, `{port}` and groups
    of the matched path alone, and it ends before what a client may choose.
    """
    text = require_text("an address", value)
    found = _ADDRESS.fullmatch(text)
    if found is None:
        # The authority may end with {path} or {uri}, which begin with a slash.
        raise invalid(
            "LB117", f'"{shorten(text)}" is not an address', "write https://HOST/..., or https://{host}{uri} and such"
        )
    authority, rest = _cut_authority(found[1], found[2])
    if not _WRITTEN_AUTHORITY.fullmatch(authority):
        raise invalid("LB117", f'"{shorten(authority)}" is not a host', "write a name, and a port if it needs one")
    for part in split_text(authority):
        if isinstance(part, Mention) and part.name not in _AUTHORITY_PARTS and not part.is_group:
            message = f"a client could choose the host by {{{part.name}}}"
            raise invalid("LB117", message, "write the host, {host} or a group of the matched path")
    _check_rest(rest)
    return text


def _check_rest(text: str) -> None:
    """LB117 for characters, beside placeholders, that no path and query have."""
    plain = "".join(part for part in split_text(text) if isinstance(part, str))
    if not _ADDRESS_REST.fullmatch(plain):
        raise invalid("LB117", f'"{shorten(plain)}" has characters that a URI cannot have', "percent-encode them")


def parse_login(value: object) -> str:
    """Where a refused client is sent: literal text, or with placeholders an address as `parse_location` takes it, or a
    path of this host. LB117 and LB120 otherwise."""
    text = parse_header_text(value)
    if not has_placeholder(text) or not text.startswith("/"):
        return parse_location(text) if has_placeholder(text) else text
    if re.match(r"/[/\\{]", text):
        message = f'a client could choose the host by what follows the first slash of "{shorten(text)}"'
        raise invalid("LB117", message, "write /PATH with text before the first placeholder, such as /login?rd={uri}")
    _check_rest(text)
    return text


def _cut_authority(authority: str, rest: str) -> tuple[str, str]:
    """The authority before a placeholder that begins with a slash, and the rest with it."""
    for name in ("{uri}", "{path}"):
        before, mark, after = authority.partition(name)
        if mark:
            return before, mark + after + rest
    return authority, rest


def parse_host_with_placeholders(value: object) -> str:
    """A host in which placeholders may stand: `{host}`, `{server_name}` and groups of the matched path."""
    text = require_text("a host", value)
    if not any(isinstance(part, Mention) for part in split_text(text)):
        return parse_plain_host(text)
    if re.search(r"[:/?#\[\]]", text):
        raise invalid("LB117", f'"{shorten(text)}" is not a host', "write a name without a port")
    return parse_location(f"https://{text}").removeprefix("https://")


def _checked_escape(found: re.Match[str]) -> str:
    if not found[1]:
        raise invalid("LB117", '"%" is not followed by two hex digits', "write %25 for the character itself")
    char = chr(int(found[1], 16))
    if char in _UNRESERVED:
        raise invalid("LB117", f"{found[0]} is an escaped {char}, which strict paths answer with 400", f"write {char}")
    if char in "/\\" or ord(char) < 0x20 or char == "\x7f":
        raise invalid("LB117", f"{found[0]} is an escape that strict paths answer with 400")
    return found[0].upper()


def parse_header_name(value: object) -> str:
    """The name of a header, in lower case; LB119 otherwise."""
    name = require_text("the name of a header", value)
    if not _TOKEN.fullmatch(name):
        raise invalid(
            "LB119", f'"{shorten(name)}" is not a header name', "letters, digits and hyphens, no colon or blank"
        )
    return name.lower()


def parse_matched_header(value: object) -> str:
    """A header name that a match may look at: Host is matched by `hosts`."""
    name = parse_header_name(value)
    if name == "host":
        raise invalid("LB119", "Host is not matched as a header", "use hosts: of the route")
    return name


def parse_client_header(value: object) -> str:
    """A header in which a proxy may state the client's address; LB119 for those with a meaning of their own."""
    name = parse_header_name(value)
    if name in NOT_OF_CLIENTS or not _PLAIN_NAME.fullmatch(name):
        hint = "write such as CF-Connecting-IP, True-Client-IP, X-Real-IP or Forwarded"
        raise invalid("LB119", f"{shorten(str(value))} holds no client's address", hint)
    return name


def parse_editable_header(value: object) -> str:
    """A header name that a topology may set, add or remove; LB119 for Host and for what frames a message."""
    name = parse_header_name(value)
    if name == "host":
        raise invalid("LB119", "Host cannot be edited as a header", "use rewrite: { host: ... }")
    if name in FRAMING:
        raise invalid("LB119", f"{shorten(str(value))} is set by the engine for each connection", "leave it out")
    return name


def parse_token(value: object) -> str:
    """A cookie's name: case-sensitive."""
    name = require_text("a name", value)
    if not _TOKEN.fullmatch(name):
        raise invalid(
            "LB104", f'"{shorten(name)}" is not the name of a cookie', "letters, digits, hyphens and underscores"
        )
    return name


def parse_query_name(value: object) -> str:
    """A query parameter's name as it stands in a URL: case-sensitive, not decoded."""
    name = require_text("the name of a query parameter", value)
    if not _QUERY_NAME.fullmatch(name):
        escaped = quote(name, safe=":/?@!$'()*+,;%[]", errors="replace")
        hint = f"write it as it stands in a URL: {shorten(escaped, 200)}" if name else "write a name"
        raise invalid("LB104", f'"{shorten(name)}" is not the name of a query parameter', hint)
    return name


def parse_header_text(value: object) -> str:
    """The value of a header: one line, not empty, no blank at its ends."""
    line = parse_line(value)
    if not line:
        raise invalid("LB104", "an empty header value", "to drop the header use remove:")
    return _without_blank_ends(line)


def parse_match_text(value: object) -> str:
    """A text that a value is compared with: one line, not empty."""
    line = parse_line(value)
    if not line:
        raise invalid(
            "LB104", "an empty value cannot be told from a missing one", "leave it out, or use { present: true }"
        )
    return line


def parse_match_header_text(value: object) -> str:
    """A text that a header's value is compared with: no blank at its ends, as HTTP does not carry them."""
    return _without_blank_ends(parse_match_text(value))


def _without_blank_ends(line: str) -> str:
    if line[0] in " \t" or line[-1] in " \t":
        raise invalid("LB104", f'"{shorten(line)}" begins or ends with a blank, which HTTP does not carry')
    return line


def parse_line(value: object) -> str:
    """Text on one line: no control character but the tab; LB120 otherwise."""
    return _without_controls(require_text("text", value), "\t")


def parse_body(value: object) -> str:
    """Text of several lines: no control characters but newline and tab; LB120 otherwise."""
    return _without_controls(require_text("text", value), "\n\t")


def _without_controls(written: str, allowed: str) -> str:
    for char in written:
        if (char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff") and char not in allowed:
            shown = {"\r": "a carriage return", "\n": "a line break", "\0": "a NUL"}.get(char)
            what = shown or f"the {'surrogate' if category(char) == 'Cs' else 'control character'} U+{ord(char):04X}"
            hint = "a body may hold newlines (\\n) and tabs" if "\n" in allowed else "a header is one line"
            raise invalid("LB120", f"holds {what}", hint)
    return written


def parse_method(value: object) -> str:
    """A method in upper case that is served; LB121 otherwise."""
    method = require_text("a method", value)
    if not re.fullmatch(r"[A-Z][A-Z_-]{0,31}", method):
        hint = f"write {method.upper()}" if re.fullmatch(r"[A-Za-z][A-Za-z_-]{0,31}", method) else "write GET, POST ..."
        raise invalid("LB121", f'"{shorten(method)}" is not a method', hint)
    if method in ("TRACE", "CONNECT"):
        raise invalid("LB121", f"{method} is never served: it is answered with 405", "leave it out")
    return method


def parse_status(value: object) -> int:
    """The status of an answer, 200 to 599; LB123 otherwise."""
    return _status(value, range(200, 600), "200 to 599")


def parse_redirect_status(value: object) -> int:
    """301, 302, 303, 307 or 308; LB123 otherwise."""
    return _status(value, (301, 302, 303, 307, 308), "301, 302, 303, 307 or 308")


def _status(value: object, allowed: range | tuple[int, ...], shown: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        hint = (
            f"write {value}" if isinstance(value, str) and value.isdecimal() and value.isascii() else f"write {shown}"
        )
        raise wrong_type("a status", value, hint)
    if value not in allowed:
        raise invalid("LB123", f"{value} is not allowed as a status here", f"write {shown}")
    return value


def parse_retry_cause(value: object) -> int | str:
    """`connect_failure`, `reset`, `timeout`, or a status from 400 to 599."""
    words = ("connect_failure", "reset", "timeout")
    if isinstance(value, str):
        if value in words:
            return value
        if value.isdecimal() and value.isascii():
            raise wrong_type("a number", value, f"write {value}")
        hint = CAUSES.get(value.lower().replace("_", "-")) or f"write {', '.join(words)} or a status"
        raise invalid("LB104", f'"{shorten(value)}" is not a retry condition', hint)
    return _status(value, range(400, 600), "400 to 599")


def parse_origin(value: object) -> str:
    """An origin for CORS as browsers send it, `*.` for hosts below a name, `:*` for any port, or `*` for all."""
    origin = require_text("an origin", value)
    if not _ORIGIN.fullmatch(origin):
        hint = "write scheme and host in lower case, such as https://shop.example, https://*.shop.example or null"
        raise invalid("LB104", f'"{shorten(origin)}" is not an origin', hint)
    return origin


def parse_media_type(value: object) -> str:
    """`application/json`."""
    media = require_text("a media type", value)
    if not re.fullmatch(r"[a-z0-9!#$&^_.+-]+/([a-z0-9!#$&^_.+-]+)", media):
        raise invalid("LB104", f'"{shorten(media)}" is not a media type', "write it in lower case, such as text/html")
    return media
