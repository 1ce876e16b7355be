"""Conditions on the path, each a class: how a path is compared, where trees and indexes find it, what it implies."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, get_args

from msgspec import Struct

from lbgen.plan.regex import literal_start, matches_whole, regex_example
from lbgen.plan.request import ParsedRequest

if TYPE_CHECKING:
    from lbgen.spec.match import Match as WrittenMatch

_ANYTHING = frozenset({".*", "/.*", "^.*", ".*$", "^.*$", "^/.*", "/.*$", "^/.*$"})


def covering_prefixes(path: str) -> list[str]:
    """The prefixes that cover `path`, longest first: `/a/b`, `/a`, `/`; of `/a/` they are `/a`, `/`."""
    found = []
    at = len(path)
    while at > 0:
        if path[at - 1] != "/":
            found.append(path[:at])
        at = path.rfind("/", 0, at)
    found.append("/")
    return found


class PathCondition(Struct, frozen=True, tag=str.lower):
    """A condition on the path; escapes in `value` are in upper-case hex."""

    word: ClassVar[str]  # the field of the topology
    order: ClassVar[int]  # those with a lower one are tried first, within one host
    is_text: ClassVar[bool] = True  # a tree of paths finds it by its value; others have to be tested
    covers_all: ClassVar[bool] = False

    value: str

    @classmethod
    def of(cls, written: str) -> Self:
        """From the value in the topology."""
        return cls(written)

    @property
    def length(self) -> int:
        """Of the conditions of one order, the longer is tried first."""
        return len(self.value)

    @property
    def start(self) -> str:
        """The text that every path that it covers begins with; it ends before an escape, if a pattern has any."""
        return self.value

    @property
    def place(self) -> Hashable:
        """Its key in an index in which a path is looked up by `places`."""
        return type(self), self.value

    @property
    def only(self) -> str | None:
        """The one way to write the one path that it covers; None where there are more."""
        return None

    def is_below(self, prefix: str) -> bool:
        """Whether every path that it covers lies below the prefix, which is not `/`, or is the prefix."""
        return prefix in covering_prefixes(self.value)

    def matches(self, path: str) -> bool:
        """Whether it covers a path whose escapes are in upper-case hex."""
        raise NotImplementedError

    def holds(self, request: ParsedRequest) -> bool:
        """Whether it covers the path of a request."""
        return self.matches(request.matched_path)

    def implies(self, other: PathCondition) -> bool:
        """Whether `other` covers every path that this covers; False where that is not certain."""
        return self == other or other.covers_all or other.covers(self)

    def covers(self, other: PathCondition) -> bool:
        """Whether it covers every path of another one than itself; False where that is not certain."""
        return False

    def index_keys(self) -> Iterator[Hashable]:
        """The keys under which whatever it may cover looks it up; see `search_keys`."""
        yield type(self), self.value

    def search_keys(self) -> list[Hashable]:
        """The keys of all that may cover it."""
        return [(type(self), self.value), *covering_prefixes(self.value)]

    def examples(self) -> tuple[str, ...]:
        """Paths that it covers, the plainest first; none where none was found."""
        return (self.value,)

    def neighbours(self, hit: str) -> Iterator[str]:
        """Paths around `hit`, just inside and just outside."""
        bare = hit.rstrip("/")
        yield from (bare + "/", bare + "/x", bare + "/x/y", hit + "x", hit + ".x", hit + "%20")
        if bare:
            yield bare[:-1] or "/"
            yield bare.rpartition("/")[0] or "/"
            yield bare.swapcase() if "%" not in bare else bare


class ExactPath(PathCondition, frozen=True):
    word = "exact"
    order = 0

    @property
    def length(self) -> int:
        return 0  # no two of them meet

    @property
    def only(self) -> str | None:
        return None if "%" in self.value else self.value  # a client may write the escape's other case

    def matches(self, path: str) -> bool:
        return path == self.value

    def search_keys(self) -> list[Hashable]:
        starts = (("starts", self.value[:end]) for end in range(len(self.value) + 1))
        return [(ExactPath, self.value), *starts, *covering_prefixes(self.value)]


class PrefixPath(PathCondition, frozen=True):
    """By whole segments. It has no trailing slash, but `/` itself."""

    word = "prefix"
    order = 2

    @classmethod
    def of(cls, written: str) -> Self:
        return cls(written.rstrip("/") or "/")

    @property
    def covers_all(self) -> bool:  # type: ignore[override]  # a value of the class elsewhere
        return self.value == "/"

    def matches(self, path: str) -> bool:
        return self.covers_all or path == self.value or path.startswith(self.value + "/")

    def covers(self, other: PathCondition) -> bool:
        return other.is_below(self.value)

    def index_keys(self) -> Iterator[Hashable]:
        yield self.value

    def search_keys(self) -> list[Hashable]:
        return [*covering_prefixes(self.value)]

    def examples(self) -> tuple[str, ...]:
        return self.value, self.value.rstrip("/") + "/lbgen-probe"

    def neighbours(self, hit: str) -> Iterator[str]:
        yield from super().neighbours(hit)
        if hit != hit.rstrip("/"):
            yield hit.rstrip("/") or "/"


class RegexPath(PathCondition, frozen=True):
    """Matches the whole path, as it was sent."""

    word = "regex"
    order = 1
    is_text = False

    @property
    def start(self) -> str:
        return literal_start(self.value)

    @property
    def place(self) -> Hashable:
        return "starts", self.start

    def is_below(self, prefix: str) -> bool:
        return self.start.startswith(prefix + "/")

    def matches(self, path: str) -> bool:
        return matches_whole(self.value, path)

    def holds(self, request: ParsedRequest) -> bool:
        return self.matches(request.path)

    def covers(self, other: PathCondition) -> bool:
        return self.value in _ANYTHING or (other.only is not None and self.matches(other.only))

    def index_keys(self) -> Iterator[Hashable]:
        if self.value in _ANYTHING:
            yield "/"
        else:
            yield from ((RegexPath, self.value), ("starts", self.start))

    def search_keys(self) -> list[Hashable]:
        return [(RegexPath, self.value), *covering_prefixes(self.start.rpartition("/")[0])]

    def examples(self) -> tuple[str, ...]:
        found = regex_example(self.value)
        return (found,) if found is not None and found.startswith("/") else ()


Path = ExactPath | PrefixPath | RegexPath
PATHS: tuple[type[Path], ...] = get_args(Path)
EVERY_PATH = PrefixPath("/")


def start_lengths(paths: Iterable[Path]) -> list[int]:
    """The lengths of the starts by which an index has those of `paths` that are patterns."""
    return sorted({len(path.start) for path in paths if not path.is_text})


def places(matched_path: str, path: str, starts: Sequence[int]) -> Iterator[Hashable]:
    """Every `place` of a condition that may cover a path; `path` is as sent, `starts` are the
    `start_lengths` of all that the index has."""
    yield ExactPath, matched_path
    yield from ((PrefixPath, prefix) for prefix in covering_prefixes(matched_path))
    yield from (("starts", path[:length]) for length in starts if length <= len(path))


def read_path(written: WrittenMatch) -> Path | None:
    """The condition on the path; None where the match has none."""
    if written.path is None:
        return None
    for path in PATHS:
        value = getattr(written.path, path.word)
        if value is not None:
            return path.of(value)
    return None
