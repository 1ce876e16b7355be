"""Path policies of listeners: maps that refuse ambiguous targets, and the target that rules match."""

from __future__ import annotations

from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.matching import PATH
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.statements import Check, Entry
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import Checks, Contributor, HttpServer, Lines
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Listener
from lbgen.plan.policy import Paths, PathsMode

NORMAL = "normal_target"
_STRICT = Paths()
_UNRESERVED = "2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe]"
_DOT = "(?:[.]|%2[Ee])"
_OF_CONNECTIONS = "close|keep-alive|upgrade|te|trailers?|http2-settings|proxy-connection"
# A name or an address, and a port.
_HOST = r"^(?:[\w.~%!$&'()*+;=-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?$"
# Most targets are normal already; of the others nginx's own normal form holds no escapes, see `_ambiguous`.
NORMAL_FORM = rf"^(?![^?]*//)(?![^?]*/[.][.]?(?:[/?]|$))(?![^?]*%(?:{_UNRESERVED}))"
# Bytes of a path and of a query: printable ASCII as browsers send it, without what no URI holds.
_PATH_BYTE, _QUERY_BYTE = r"[^\x00-\x20#?\x5c\x7f-\xff]", r"[^\x00-\x20#\x7f-\xff]"

_HOST_NOTES = ("Endpoints must read the host that rules saw: none, as of HTTP/1.0, is refused, as is u@a or a:80:80.",)
_TARGET_NOTES = (
    "Paths that can be read in two ways are refused, so that no spelling of a path passes a rule: empty",
    "and dot segments, and escapes that are broken, of slashes, of controls, or of letters and digits.",
)
_CONNECTION_NOTES = ("Connection must not name fields that nginx would forward: endpoints get no Connection header.",)


def unambiguous_targets(paths: Paths) -> tuple[str, str]:
    """Regexes of targets that can be read in one way only: of almost all, which is quick, and of all."""
    query = rf"(?:\?{_QUERY_BYTE}*)?$"
    plain = rf"^(?![^?]*/[./])/{_PATH_BYTE.replace('#', '#%')}*{query}"
    ambiguous = "|".join(_ambiguous(paths))
    unless = rf"(?![^?]*(?:{ambiguous}))" if ambiguous else ""
    return plain, rf"^{unless}/{_PATH_BYTE}*{query}"


def target_variable(listener: Listener) -> str:
    """The variable with the target that rules match and endpoints get."""
    return NORMAL if listener.paths.mode is PathsMode.NORMALIZE else PATH


def matches_raw_path(listener: Listener) -> bool:
    """Whether rules test the raw path since several raw paths share a decoded one."""
    paths = listener.paths
    return paths.mode is PathsMode.STRICT and paths != _STRICT


def ignores_locations(listener: Listener) -> bool:
    """Whether rules test the raw path alone, since the decoded one is no criterion."""
    return listener.paths.mode is PathsMode.VERBATIM


def _server(at: HttpServer) -> Lines:
    if at.listener.paths.empty_segments or ignores_locations(at.listener):
        yield directive("merge_slashes", "off")


def _ambiguous(paths: Paths) -> list[str]:
    """Regexes of what a path must not contain."""
    if paths.mode is PathsMode.VERBATIM:
        return []
    refused = ["(?![0-9A-Fa-f][0-9A-Fa-f])", "[01]", "5[Cc]", "7[Ff]"]
    if not paths.encoded_slash:
        refused.append("2[Ff]")
    if paths.mode is PathsMode.NORMALIZE:
        # $uri is decoded and resolved, but escapes are lost: refuse paths that need both.
        other = f"%(?!{_UNRESERVED})"
        odd = f"(?://|/[.][.]?(?:[/?]|$)|%(?:{_UNRESERVED}))"
        return [f"%(?:{'|'.join(refused)})", f"{odd}[^?]*{other}", f"{other}[^?]*{odd}"]
    if not paths.encoded_unreserved:
        refused.append(_UNRESERVED)
    slash = "(?:/|%2[Ff])" if paths.encoded_slash else "/"
    patterns = [f"%(?:{'|'.join(refused)})", f"{slash}{_DOT}{{1,2}}(?:{slash}|[?]|$)"]
    return patterns if paths.empty_segments else [*patterns, "//"]


def _checks(at: HttpServer) -> Checks:
    """The variable that is not 0 for a request that no rule may see: for its target, or since its Connection header
    names other fields than those of one connection, which nginx would forward."""
    paths, definitions, yes, no = at.listener.paths, at.on.definitions, Atom("1"), Atom("0")
    if definitions.first("odd_host"):
        host = Entry(Literal(_HOST, "regex"), no)
        source = text(inline("endpoint_host"))
        definitions.map(Section.PATHS, "odd_host", source, host, default=yes, notes=_HOST_NOTES)
    refused, is_new = definitions.named("refused", "", paths)
    if is_new:
        unclear, target = refused.replace("refused", "unclear"), text(inline(PATH))
        clear = (Entry(Literal(each, "regex"), text(inline("odd_host"))) for each in unambiguous_targets(paths))
        notes = _TARGET_NOTES if paths == _STRICT else ()
        definitions.map(Section.PATHS, unclear, target, *clear, default=yes, notes=notes)
        allowed = (Literal("", "key"), Literal(rf"(?i)^(?:[ \t,]|(?:{_OF_CONNECTIONS})[ \t]*(?:,|$))*$", "regex"))
        entries = (Entry(each, text(inline(unclear))) for each in allowed)
        source = text(inline("http_connection"))
        definitions.map(Section.PATHS, refused, source, *entries, default=yes, notes=_CONNECTION_NOTES)
        if paths.mode is PathsMode.NORMALIZE:
            normal = Entry(Literal(NORMAL_FORM, "regex"), target)
            default = text(inline("uri"), inline("is_args"), inline("args"))
            definitions.map(Section.PATHS, NORMAL, target, normal, default=default)
    yield Check(reference(refused), 400)


PATHS = Contributor(server=_server, checks=_checks)
