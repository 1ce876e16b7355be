"""What a rule asks of a request: a path is one class, a subject (method, header, ...) one, an operator on a value one.

The registries below name them as the fields of `lbgen/spec/match.py`. Precedence, shadowing, the oracle, probes, the
corpus and `verify` work from the methods of these classes, and each engine has a table from class to text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, get_args

from msgspec import Struct

from lbgen.plan.regex import literal_start, matches_whole
from lbgen.plan.regex_example import regex_example
from lbgen.plan.request import Draft, ParsedRequest, to_wire
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.spec.match import Match as WrittenMatch
    from lbgen.spec.match import Unless as WrittenUnless

Values = Sequence[str]
Pairs = tuple[tuple[str, str], ...]
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


class Operator(Struct, frozen=True, tag=str.lower):
    """What is asked of a value, or of several of one name."""

    word: ClassVar[str]  # the field of the topology
    above: ClassVar[str] = ""  # the field of a match that its subject is in, and a dot
    reads_lists: ClassVar[bool] = True  # of a header, whether it may hold for one element of a list
    is_lasting: ClassVar[bool] = True  # whether further values cannot end it
    is_wide: ClassVar[bool] = True  # whether others may imply it
    implies_others: ClassVar[bool] = False

    @classmethod
    def of(cls, written: object) -> Self:
        """From the value in the topology."""
        return cls(*([written] if cls.__struct_fields__ else []))

    def accepts(self, value: str) -> bool:
        """Whether it holds for one value, as sent."""
        raise NotImplementedError

    def holds(self, values: Values) -> bool:
        """Whether it holds for all values of a name; there may be none."""
        return any(map(self.accepts, values))

    def implies(self, other: Operator) -> bool:
        """Whether `other` holds wherever this does; False where that is not certain."""
        return self == other

    def examples(self) -> tuple[str | None, ...]:
        """Values for which it holds, as text, None for no value; none where none was found."""
        raise NotImplementedError

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        """Lists of values around the value `hit`, just inside and just outside."""
        value = hit or "1"
        yield ()
        yield from (("",), (value + "x",), ("other", value), (value, "other"))

    def mismatch(self, what: str, values: Values) -> str:
        """Why it does not hold for these values of `what`, as a phrase."""
        return f"{what} is {', '.join(values)!r}, not {self}" if values else f"{what} is missing"


class Exact(Operator, frozen=True):
    word = "exact"
    is_wide = False
    implies_others = True

    value: str

    def __str__(self) -> str:
        return repr(self.value)

    def accepts(self, value: str) -> bool:
        return value == to_wire(self.value)

    def implies(self, other: Operator) -> bool:
        return self == other or (other.is_lasting and other.accepts(to_wire(self.value)))

    def examples(self) -> tuple[str | None, ...]:
        return (self.value,)

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        yield from super().neighbours(hit)
        if self.value.swapcase() != self.value:
            yield (self.value.swapcase(),)


class Regex(Operator, frozen=True):
    """Matches the whole value."""

    word = "regex"

    value: str

    def __str__(self) -> str:
        return f"regex {self.value!r}"

    def accepts(self, value: str) -> bool:
        return matches_whole(self.value, value)

    def examples(self) -> tuple[str | None, ...]:
        found = regex_example(self.value)
        return () if found is None else (found,)


class Present(Operator, frozen=True):
    """It is there and not empty."""

    word = "present"
    reads_lists = False

    def accepts(self, value: str) -> bool:
        return value != ""

    def examples(self) -> tuple[str | None, ...]:
        return ("1",)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} is {'empty' if values else 'missing'}"


class Absent(Operator, frozen=True):
    """The opposite of Present: it is not there, or empty, which nginx cannot tell apart for headers."""

    word = "absent"
    reads_lists = False
    is_lasting = False

    def __str__(self) -> str:
        return "absent"

    def accepts(self, value: str) -> bool:
        return value == ""

    def holds(self, values: Values) -> bool:
        return all(map(self.accepts, values))

    def examples(self) -> tuple[str | None, ...]:
        return None, ""

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        yield from (("",), ("1",), ("1", "other"))


class OneOf(Operator, frozen=True):
    """One of these words."""

    word = ""
    implies_others = True

    values: tuple[str, ...]

    def accepts(self, value: str) -> bool:
        return value in self.values

    def implies(self, other: Operator) -> bool:
        return isinstance(other, OneOf) and set(self.values) <= set(other.values)

    def examples(self) -> tuple[str | None, ...]:
        return self.values

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        yield from ((value,) for value in self.values if value != hit)
        yield from ((value,) for value in ("GET", "HEAD", "POST", "OPTIONS") if value not in self.values)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} {' '.join(values)} is not {' or '.join(self.values)}"


ValueOperator = Exact | Regex | Present | Absent


class Not(Operator, frozen=True):
    """Another operator does not hold."""

    word = ""
    above = "unless."
    is_lasting = False
    implies_others = True

    operator: ValueOperator | OneOf

    @property
    def reads_lists(self) -> bool:  # type: ignore[override]  # a value of the class elsewhere
        return self.operator.reads_lists

    def accepts(self, value: str) -> bool:
        return not self.operator.accepts(value)

    def holds(self, values: Values) -> bool:
        return not self.operator.holds(values)

    def implies(self, other: Operator) -> bool:
        return isinstance(other, Not) and other.operator.implies(self.operator)

    def examples(self) -> tuple[str | None, ...]:
        values = ("GET", "POST", "PUT", "DELETE", "PURGE") if isinstance(self.operator, OneOf) else (None, "lbgen", "")
        return tuple(each for each in values if self.holds(() if each is None else (each,)))

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        for each in self.operator.examples():
            yield () if each is None else (each,)
            yield from self.operator.neighbours(each)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} is {', '.join(values)!r}, which is excluded" if values else f"{what} is missing"


AnyOperator = ValueOperator | OneOf | Not


class Subject(Struct, frozen=True, tag=str.lower):
    """What a condition looks at."""

    word: ClassVar[str]  # the field of the topology
    label: ClassVar[str]
    operators: ClassVar[tuple[type[AnyOperator], ...]] = get_args(ValueOperator)

    name: str = ""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.label} {self.name}" if self.name else self.label

    def values(self, request: ParsedRequest) -> Values:
        """Its values in a request."""
        raise NotImplementedError

    def holds(self, operator: Operator, request: ParsedRequest) -> bool:
        return operator.holds(self.values(request))

    def write(self, draft: Draft, values: Values) -> Draft:
        """The draft with these values of it."""
        raise NotImplementedError


class Method(Subject, frozen=True):
    word = "methods"
    label = "method"
    operators = (OneOf,)

    def values(self, request: ParsedRequest) -> Values:
        return (request.method,)

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, method=values[0])


class Header(Subject, frozen=True):
    """`name` is in lower case."""

    word = "headers"
    label = "header"

    def values(self, request: ParsedRequest) -> Values:
        return request.lines(self.name)

    def holds(self, operator: Operator, request: ParsedRequest) -> bool:
        """Several lines and one comma-separated list are the same thing (RFC 9110 5.3)."""
        lines = self.values(request)
        if not lines or not operator.reads_lists:
            return operator.holds(lines)
        combined = ", ".join(lines)
        return operator.holds((combined, *(each.strip(" \t") for each in combined.split(","))))

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, headers=_with(draft.headers, self.name, values))


class Query(Subject, frozen=True):
    """The first parameter of that name."""

    word = "query"
    label = "query"

    @property
    def title(self) -> str:
        return f"query parameter {self.name}"

    def values(self, request: ParsedRequest) -> Values:
        return _some(request.parameter(to_wire(self.name)))

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, query=_with(draft.query, self.name, values))


class Cookie(Subject, frozen=True):
    """The first cookie of that name."""

    word = "cookies"
    label = "cookie"

    def values(self, request: ParsedRequest) -> Values:
        return _some(request.cookie(to_wire(self.name)))

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, cookies=_with(draft.cookies, self.name, values))


AnySubject = Method | Header | Query | Cookie
SUBJECTS: tuple[type[AnySubject], ...] = get_args(AnySubject)
"""In the order of precedence: of two rules the one with more conditions on the first of them is tried first."""


class Condition(Struct, frozen=True):
    """What is asked of one part of a request."""

    subject: AnySubject
    operator: AnyOperator

    @property
    def kind(self) -> Kind:
        """The key of an engine's table."""
        return type(self.subject), type(self.operator)

    @property
    def field(self) -> str:
        """The place in a match of the topology."""
        name = f".{self.subject.name}" if self.subject.name else ""
        return f"{self.operator.above}{self.subject.word}{name}"

    def holds(self, request: ParsedRequest) -> bool:
        return self.subject.holds(self.operator, request)

    def mismatch(self, request: ParsedRequest) -> str:
        """Why it does not hold, as a phrase."""
        return self.operator.mismatch(self.subject.title, self.subject.values(request))

    def implies(self, other: Condition) -> bool:
        """Whether `other` holds for every request for which this does; False where that is not certain."""
        return self.subject == other.subject and self.operator.implies(other.operator)


Kind = type[Path] | tuple[type[AnySubject], type[AnyOperator]]


def _feature(subject: type[Subject], operator: type[Operator]) -> str:
    plain = operator is subject.operators[0]
    return f"match.{subject.word}" if plain else f"match.{subject.word}.{operator.word}"


FEATURES: Mapping[Kind, str] = {
    **{path: f"match.path.{path.word}" for path in PATHS},
    **{(subject, each): _feature(subject, each) for subject in SUBJECTS for each in subject.operators},
    **{(subject, Not): f"match.unless.{subject.word}" for subject in SUBJECTS},
}
"""The name of the feature that each condition uses."""


def features_of(subject: type[AnySubject]) -> list[str]:
    """The features of all conditions on one kind of subject."""
    return [name for kind, name in FEATURES.items() if isinstance(kind, tuple) and kind[0] is subject]


def read_path(written: WrittenMatch) -> Path | None:
    """The condition on the path; None where the match has none."""
    if written.path is None:
        return None
    for path in PATHS:
        value = getattr(written.path, path.word)
        if value is not None:
            return path.of(value)
    return None


def read_conditions(written: WrittenMatch) -> Iterator[Condition]:
    """The other conditions of a match, by subject, in the order of the file."""
    yield from _read(written)
    if written.unless is not None:
        yield from (Condition(each.subject, _negated(each.operator)) for each in _read(written.unless))


def _negated(operator: AnyOperator) -> Not:
    return operator if isinstance(operator, Not) else Not(operator)


def _read(written: WrittenMatch | WrittenUnless) -> Iterator[Condition]:
    for subject in SUBJECTS:
        value = getattr(written, subject.word)
        if not value:
            continue
        if isinstance(value, Mapping):
            for name, asked in value.items():
                yield Condition(subject(name), _operator(subject, asked))
        else:
            yield Condition(subject(), subject.operators[0].of(tuple(dict.fromkeys(value))))


def _operator(subject: type[AnySubject], written: object) -> AnyOperator:
    given = [each for each in subject.operators if getattr(written, each.word) is not None]
    return given[0].of(getattr(written, given[0].word))


def with_conditions(draft: Draft, conditions: Iterable[Condition]) -> Draft | None:
    """The draft as the conditions want it; None where no value was found for one of them, or two exclude each other."""
    asked: dict[AnySubject, list[AnyOperator]] = {}
    for each in conditions:
        asked.setdefault(each.subject, []).append(each.operator)
    for subject, operators in asked.items():
        examples = [example for operator in operators for example in operator.examples()]
        lists = [() if each is None else (each,) for each in examples]
        values = next((each for each in lists if all(x.holds([*map(to_wire, each)]) for x in operators)), None)
        if values is None:
            return None
        draft = subject.write(draft, values)
    return draft


def _some(value: str | None) -> Values:
    return () if value is None else (value,)


def _with(pairs: Pairs, name: str, values: Values) -> Pairs:
    """`pairs` with these values of `name`, at the place of the first that it has."""
    place = next((at for at, (each, _) in enumerate(pairs) if each == name), len(pairs))
    others = [pair for pair in pairs if pair[0] != name]
    return (*others[:place], *((name, value) for value in values), *others[place:])
