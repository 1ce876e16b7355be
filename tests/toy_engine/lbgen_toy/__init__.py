"""A sixth engine in a package of its own: TCP in round robin, by a Python program. It proves what an engine needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import DictLoader

from lbgen.engines import text
from lbgen.engines.api import (
    NATIVE,
    Binary,
    BinaryHint,
    CheckSpec,
    Images,
    ProcessSpec,
    RenderedFile,
    approximate,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lbgen.engines.api import Objection, Verdict
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan

FILE = "toy.conf"
SUPPORTED = {"listener.l4.tcp", "route.forward", "pool.balance.round_robin", "timeouts.connect", "timeouts.idle"}
REFUSED = refused("the toy forwards TCP in round robin and nothing else")
UNLOGGED = approximate("the toy logs no connections", {"access_log.l4": "log"})


@dataclass(frozen=True)
class Bind:
    """One listener with its endpoints. Times in milliseconds, 0 = no limit."""

    origin: text.Atom
    address: text.Literal
    port: int
    connect: int
    idle: int
    endpoints: tuple[Server, ...]


@dataclass(frozen=True)
class Server:
    """An endpoint."""

    origin: text.Atom
    host: text.Literal
    port: int


@dataclass(frozen=True)
class Config:
    """What the template prints."""

    binds: tuple[Bind, ...]


def build(plan: Plan) -> Config:
    """The view of a plan."""
    binds = []
    for listener in plan.listeners:
        route = plan.route(listener.l4_rules[0].route)
        (target,) = route.action.targets
        pool = plan.pool(target.pool)
        servers = (Server(text.Atom(x.field), text.Literal(x.host), x.port) for x in pool.endpoints)
        times = route.action.timeouts
        address = text.Literal(listener.address)
        binds.append(Bind(text.Atom(listener.field), address, listener.port, times.connect, times.idle, tuple(servers)))
    return Config(tuple(binds))


@dataclass(frozen=True)
class Toy:
    """See `lbgen.engines.api.Engine`."""

    name: str = "toy"
    title: str = "Toy"
    versions: tuple[str, ...] = ("1.0",)
    binaries: tuple[BinaryHint, ...] = (BinaryHint("toylb", "lbgen_toy", "toylb"),)
    images: Images = Images({}, "/usr/local/sbin/toylb")  # noqa: RUF009  # frozen
    insertion_points: tuple[tuple[str, str], ...] = ()

    def verdict(self, feature: Feature, version: str) -> Verdict:
        if feature == "access_log.l4":
            return UNLOGGED
        return NATIVE if feature in SUPPORTED else REFUSED

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return ()

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        template = (files(__package__) / "toy.conf.j2").read_text(encoding="utf-8")
        environment = text.environment(DictLoader({FILE: template}), {"word": str})
        return (RenderedFile(FILE, *text.render(environment, FILE, build(plan))),)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return ProcessSpec((str(binary.path), FILE), fixed=(FILE,))

    def access_record(self, line: str) -> Mapping[str, object] | None:
        return None

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return CheckSpec(
            (str(binary.path), "-t", FILE), lambda code, output, _: tuple(output.splitlines()) if code else ()
        )


ENGINE = Toy()
