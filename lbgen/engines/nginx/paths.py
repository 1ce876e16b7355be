"""Path policies of listeners: maps that refuse ambiguous targets, and the target that rules match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.matching import PATH
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.view import NONE, Entry, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.policy import Paths, PathsMode
from lbgen.plan.request import AUTHORITY

if TYPE_CHECKING:
    from lbgen.engines.nginx.scripts import Script
    from lbgen.engines.nginx.support import Version
    from lbgen.plan.guarantees import Guarantees
    from lbgen.plan.model import Listener

NORMAL = "normal_target"
_SCRIPTED = "target_made_normal"
_STRICT = Paths()
_UNRESERVED = "2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe]"
_DOT = "(?:[.]|%2[Ee])"
_PLAIN = r"[A-Za-z0-9._~:\[\]@!$&'()*+,;=-]"
# Bytes of a path and of a query: printable ASCII as browsers send it, without what no URI holds.
_PATH_BYTE, _QUERY_BYTE = r"[^\x00-\x20#?\x5c\x7f-\xff]", r"[^\x00-\x20#\x7f-\xff]"
_URI = r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]"


class PathPolicies:
    """Collects the maps and scripts of the policies in use; the default strict policy is part of the template."""

    def __init__(self, kept: Guarantees, version: Version, *, http2: bool) -> None:
        self.maps: list[Map] = []
        self.scripts: tuple[Script, ...] = ()
        self._left = not (kept.paths or kept.framing)
        self._version = version
        self._http2 = http2
        self._known: dict[Paths, Atom] = {} if self._left else {_STRICT: Atom("$refused")}

    def refused_status(self, listener: Listener) -> Atom:
        """The variable with the status for a refused request, else 0."""
        paths = listener.paths
        if self._left and paths not in self._known:
            name = "refused" if not self._known else f"refused_{len(self._known) + 1}"
            self.maps.append(_guard(paths, self._version, f"${name}"))
            self._known[paths] = Atom(f"${name}")
            if paths.mode is PathsMode.NORMALIZE:
                self.maps.append(_normal(self._version))
                self.scripts = (script(_SCRIPTED, "paths", "normal"),) if self._version.scripts else ()
        if paths not in self._known:
            number = len(self._known) + 1
            unclear, refused = f"unclear_path_{number}", f"refused_{number}"
            entries = tuple(
                Entry(Literal(f"^[^?]*{pattern}", "regex"), Atom("400")) for pattern in _ambiguous(paths, self._version)
            )
            self.maps.append(Map(NONE, text(inline(PATH)), Atom(f"${unclear}"), Atom("0"), entries))
            connect = Entry(Literal("^[^ ]* [^ ]* CONNECT ", "regex"), Atom("405"))
            entries = (
                *(() if self._version.upstreams else (connect,)),
                Entry(plain_request(http2=self._http2), Atom("0")),
                Entry(well_formed_request(http2=self._http2), text(inline(unclear))),
            )
            source = text(inline("nominates"), " ", inline("http_host"), " ", inline("request"))
            self.maps.append(Map(NONE, source, Atom(f"${refused}"), Atom("400"), entries))
            if paths.mode is PathsMode.NORMALIZE:
                self.maps.append(_normal(self._version))
                self.scripts = (script(_SCRIPTED, "paths", "normal"),) if self._version.scripts else ()
            self._known[paths] = Atom(f"${refused}")
        return self._known[paths]


def unambiguous_targets(paths: Paths, version: Version) -> tuple[str, str]:
    """Regexes of targets that can be read in one way only: of almost all, which is quick, and of all."""
    query = rf"(?:\?{_QUERY_BYTE}*)?$"
    plain = rf"^(?![^?]*/[./])/{_PATH_BYTE.replace('#', '#%')}*{query}"
    ambiguous = "|".join(_ambiguous(paths, version))
    unless = rf"(?![^?]*(?:{ambiguous}))" if ambiguous else ""
    return plain, rf"^{unless}/{_PATH_BYTE}*{query}"


def _guard(paths: Paths, version: Version, name: str) -> Map:
    """The map that is 0 for targets which rules and endpoints read alike."""
    notes = (
        Atom("Paths that can be read in two ways are refused, so that no spelling of a path passes a rule: empty"),
        Atom("and dot segments, and escapes that are broken, of slashes, of controls, or of letters and digits."),
    )
    entries = tuple(Entry(Literal(each, "regex"), Atom("0")) for each in unambiguous_targets(paths, version))
    return Map(NONE, text(inline(PATH)), Atom(name), Atom("1"), entries, notes=notes if paths == _STRICT else ())


def well_formed_request(*, http2: bool) -> Literal:
    """Regex over `$nominates Host request-line`, required by every policy. HTTP/1.0 may lack Host."""
    version = r"(?:1\.[01]|2\.0)" if http2 else r"1\.[01]"
    target = r"(?:(?i:https?://\1)(?=[/? ])|(?=/))"
    return Literal(rf"^(?::nominated)? ((?:{AUTHORITY})?) [A-Z][A-Z_-]* {target}{_URI}* HTTP/{version}$", "regex")


def plain_request(*, http2: bool) -> Literal:
    """Regex over `$nominates Host request-line` that matches almost every request, and only what all policies accept:
    no fields that Connection names, no escapes, no empty or dot segments in the path."""
    version = r"(?:1\.[01]|2\.0)" if http2 else r"1\.[01]"
    # Not a group for each segment: PCRE 1 recurses with each, and gives up at some thousand.
    path = rf"(?![^ ?]*/[./])/{_PLAIN.replace('[', '[/', 1)}*"
    return Literal(
        rf"^ [A-Za-z0-9][A-Za-z0-9.-]*(?::[1-5]?[0-9]{{1,4}})? [A-Z]+ {path}(?:\?{_URI}*)? HTTP/{version}$", "regex"
    )


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


def keeps_slashes(listener: Listener) -> bool:
    """Whether `//` is not `/`."""
    return listener.paths.empty_segments or ignores_locations(listener)


def _ambiguous(paths: Paths, version: Version) -> list[str]:
    """Regexes of what a path must not contain."""
    if paths.mode is PathsMode.VERBATIM:
        return []
    refused = ["(?![0-9A-Fa-f][0-9A-Fa-f])", "[01]", "5[Cc]", "7[Ff]"]
    if not paths.encoded_slash:
        refused.append("2[Ff]")
    if paths.mode is PathsMode.NORMALIZE:
        if version.scripts:
            return [f"%(?:{'|'.join(refused)})"]
        # $uri is decoded and resolved, but escapes are lost: refuse paths that need both.
        other = f"%(?!{_UNRESERVED})"
        odd = f"(?://|/[.][.]?(?:[/?]|$)|%(?:{_UNRESERVED}))"
        return [f"%(?:{'|'.join(refused)})", f"{odd}[^?]*{other}", f"{other}[^?]*{odd}"]
    if not paths.encoded_unreserved:
        refused.append(_UNRESERVED)
    slash = "(?:/|%2[Ff])" if paths.encoded_slash else "/"
    patterns = [f"%(?:{'|'.join(refused)})", f"{slash}{_DOT}{{1,2}}(?:{slash}|[?]|$)"]
    return patterns if paths.empty_segments else [*patterns, "//"]


def _normal(version: Version) -> Map:
    """Most targets are normal already; a script normalises the others. nginx 1.22 has no scripts and uses $uri, which
    holds no escapes."""
    normal = rf"^(?![^?]*//)(?![^?]*/[.][.]?(?:[/?]|$))(?![^?]*%(?:{_UNRESERVED}))"
    entries = [Entry(Literal(normal, "regex"), text(inline(PATH)))]
    default = text(inline(_SCRIPTED))
    if not version.scripts:
        entries.append(Entry(Literal(r"[?]$", "regex"), text(inline("uri"), "?", inline("args"))))  # an empty query
        default = text(inline("uri"), inline("is_args"), inline("args"))
    return Map(NONE, text(inline(PATH)), Atom(f"${NORMAL}"), default, tuple(entries))
