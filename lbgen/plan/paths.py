"""The path policies (contract section 3): the target to match and forward, or the reason of a refusal."""

from __future__ import annotations

import re

from lbgen.plan.policy import Paths, PathsMode

# Printable ASCII but `#`: browsers send `|` and `^` raw, curl the others too. A backslash is a slash to some servers.
_QUERY = re.compile(r"[!-\"$-~]*")
_PATH = re.compile(r"[!-\"$-\[\]-~]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_SLASH = re.compile("/|%2[Ff]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class PathError(ValueError):
    """The target is refused; the message says why in a sentence."""


def accept_target(target: str, paths: Paths) -> str:
    """The forwarded form of an origin-form target; PathError when `paths` refuses it."""
    path, mark, query = target.partition("?")
    if not (_PATH.fullmatch(path) and _QUERY.fullmatch(query)):
        raise PathError("the target holds a blank, a fragment, a backslash in its path or a byte that is not ASCII")
    match paths.mode:
        case PathsMode.VERBATIM:
            if _BAD_ESCAPE.search(path):  # undefined, and Go and nginx always refuse it
                raise PathError("the path holds a broken escape")
            if "%00" in path:  # some engines always refuse this and the next one
                raise PathError("the path holds %00")
            if _above_root(path):
                raise PathError("the path leads above the root when all of it is decoded")
            return target
        case PathsMode.NORMALIZE:
            _check_escapes(path, Paths(encoded_unreserved=True))
            return normalise_path(path) + mark + query
        case PathsMode.STRICT:
            _check_escapes(path, paths)
            _check_segments(path, paths)
            return target


def path_to_match(path: str, paths: Paths) -> str:
    """`path` as rules compare it: hex escapes in upper case, except with verbatim paths."""
    return path if paths.mode is PathsMode.VERBATIM else _ESCAPE.sub(lambda found: found[0].upper(), path)


def normalise_path(path: str, *, clamped: bool = False) -> str:
    """Unreserved characters decoded, slashes merged, dot segments resolved; PathError above the root, which is its own
    parent where `clamped` (RFC 3986, 5.2.4)."""
    found: list[str] = []
    segments = re.sub("/+", "/", _decoded(path)).split("/")[1:]
    for index, segment in enumerate(segments):
        if segment == "..":
            if not found and not clamped:
                raise PathError("the path leads above the root")
            del found[-1:]
        elif segment != ".":
            found.append(segment)
            continue
        if index == len(segments) - 1:
            found.append("")
    return "/" + "/".join(found)


def _decoded(text: str) -> str:
    """`text` with escapes of unreserved characters decoded."""

    def decode(found: re.Match[str]) -> str:
        char = chr(int(found[1], 16))
        return char if char in _UNRESERVED else found[0]

    return _ESCAPE.sub(decode, text)


def _above_root(path: str) -> bool:
    """Whether a path whose every escape is decoded, of slashes too, has more `..` than segments before it, empty ones
    included."""
    depth = 0
    for segment in _SLASH.split(path)[1:]:
        plain = _decoded(segment)
        depth += -1 if plain == ".." else plain != "."
        if depth < 0:
            return True
    return False


def _check_escapes(path: str, paths: Paths) -> None:
    if _BAD_ESCAPE.search(path):
        raise PathError("the path holds a broken escape")
    for digits in _ESCAPE.findall(path):
        char = chr(int(digits, 16))
        if char == "/" and paths.encoded_slash:
            continue
        if char in "/\\" or char < " " or char == "\x7f":
            raise PathError(f"the path holds %{digits}, an escaped slash, backslash or control character")
        if char in _UNRESERVED and not paths.encoded_unreserved:
            raise PathError(f"the path holds %{digits}, which is {char} and needs no escape")


def _check_segments(path: str, paths: Paths) -> None:
    if any(_decoded(segment) in (".", "..") for segment in _SLASH.split(path)):
        raise PathError("the path holds a dot segment")
    if "" in path.split("/")[1:-1] and not paths.empty_segments:
        raise PathError("the path holds an empty segment")
