"""The parts of a topology that a target runs, one for each tier, and what comes of them: files and findings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, LbgenError, Severity, UsageError
from lbgen.engines.api import (
    Binary,
    Deployed,
    Engine,
    FloatsAddresses,
    ProcessSpec,
    RenderedFile,
    engine_of,
    engines,
    runs_in_kernel,
    target_version,
)
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.rendered import Rendered, render_with
from lbgen.plan.model import Endpoint, Forward, Plan, Pool
from lbgen.plan.tiers import Tier
from lbgen.plan.tiers import parts as tiers_of
from lbgen.plan.tls import File
from lbgen.resources import folder
from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

LOAD = "load.sh"  # puts the files where the engine runs
CONFIG = "/etc/lbgen"  # where a container has the rendered files, read-only
_ADMIN = 9901  # the first port for an engine's admin interface, on loopback
_SLOTS = 10  # the least number of addresses that a name of replicas may get, beyond those there are now
# Limits of one process, and what is known to one process alone.
_PER_REPLICA = {
    "route.rate_limit": "each replica counts by itself, so that {n} allow {n} times the rate",
    "route.concurrency": "each replica counts by itself, so that {n} allow {n} times as many requests",
    "listener.max_connections": "each replica counts by itself, so that {n} accept {n} times as many connections",
    "listener.max_connections.l4": "each replica counts by itself, so that {n} accept {n} times as many connections",
    "pool.connections.max_per_endpoint": "each replica counts by itself, so that an endpoint may get {n} times as many "
    "requests",
    "pool.balance.least_connections": "each replica of {n} counts only its own requests to an endpoint",
    "pool.health.passive": "each replica of {n} ejects by itself, by the failures that it saw",
}
# Who a client is: behind other machines of the target its address is kept or lost.
_BY_CLIENT = frozenset({"listener.access", "route.access", "route.sources", "pool.balance.source_hash"})


class Request(Struct, frozen=True):
    """What `lbgen.export` is asked for. `replicas` by tier, "" of a topology without tiers; `engine` for tiers that
    name none. `namespace` and `autoscale` are for Kubernetes, `gateway_class` is for the Gateway API."""

    topology: Topology
    engine: str | None = None
    replicas: Mapping[str, int] = {}
    accept: tuple[str, ...] = ()
    namespace: str = "default"
    autoscale: bool = False
    gateway_class: str = "lbgen"

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.topology.name


class Part(Struct, frozen=True):
    """A tier, or the whole topology. `spec` says how its engine runs on `rendered` in a folder that it may write to;
    `entry`: clients connect to it; `tier` is "" without tiers; `hosts` are the machines that the topology names;
    `published` are the address as in the topology (IPv6 in brackets), port and protocol of each listener."""

    name: str
    tier: str
    plan: Plan
    engine: Engine
    version: str
    spec: ProcessSpec
    rendered: Rendered
    replicas: int
    entry: bool
    hosts: tuple[str, ...] = ()
    published: tuple[tuple[str, int, str], ...] = ()
    floating: RenderedFile | None = None  # the file of an engine that announces the listeners' addresses

    def files(self, under: str, more: tuple[RenderedFile, ...] = ()) -> tuple[RenderedFile, ...]:
        """The rendered files, and `more` beside them, below a folder of the export."""
        return tuple(replace(file, name=f"{under}/{file.name}", origins=()) for file in (*self.rendered.files, *more))

    def copies(self, under: str) -> tuple[File, ...]:
        """The topology's own files below a folder of the export."""
        return tuple(replace(x, path=f"{under}/{x.path}") for x in self.rendered.copies if x.is_copied)

    @property
    def secrets(self) -> tuple[File, ...]:
        """The private keys that are copied."""
        return tuple(x for x in self.rendered.copies if x.secret and x.is_copied)


class Exported(Struct, frozen=True):
    """A folder for one target, by file name, what the target does not keep, and the parts that are in it."""

    target: str
    rendered: Rendered
    findings: tuple[Diagnostic, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """The texts by file name; certificates and keys are copied by `write`."""
        return dict(self.rendered)

    def write(self, directory: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the folder, private keys readable by their owner alone; files of an earlier export that are not in this
        one are removed. Raises OSError, EngineError LB424."""
        return self.rendered.write(directory)


class Target(Struct, frozen=True):
    """How a target changes a plan before it is rendered. `work` is the folder that an engine runs in; `endpoints` gives
    the names of a tier's replicas, by the name of its plan and their number, and how many addresses each may have."""

    name: str
    work: Callable[[str], str]
    endpoints: Callable[[str, int], tuple[tuple[str, int], ...]]
    address: bool = True  # listeners are on every address of a container
    resolvers: tuple[str, ...] = ()
    least: int = 1  # replicas where the topology says nothing
    names: int = 1  # addresses that an endpoint's own name may have
    floating: bool = False  # another engine may announce the addresses of a part in front
    cluster: bool = False  # engines are where names of Services lead to them
    drains: bool = False  # something runs beside an engine before it is stopped, and can ask it to drain


def slots(replicas: int) -> int:
    """How many addresses a name of that many replicas may get."""
    return max(_SLOTS, 2 * replicas)


def build_parts(request: Request, target: Target) -> tuple[Part, ...]:
    """The parts for a target. Raises LbgenError (findings, verdicts), UsageError LB225, LB305."""
    found = tiers_of(request.topology)
    if unknown := [name for name in request.replicas if name not in {tier.name for tier in found}]:
        known = ", ".join(tier.name for tier in found if tier.name) or "the topology has no tiers"
        raise UsageError(Diagnostic("LB225", f"there is no tier {unknown[0]!r} to have replicas", hint=known))
    counts = {tier.name: request.replicas.get(tier.name) or max(tier.replicas, target.least) for tier in found}
    return tuple(_part(request, target, tier, counts) for tier in found)


def _part(request: Request, target: Target, tier: Tier, counts: Mapping[str, int]) -> Part:
    engine = engine_of(tier) or _asked(request, tier)
    if isinstance(engine, Deployed):
        field = f"tiers.{tier.name}.engine" if tier.name else ""
        message = f"{engine.title} is a service of its own, which {target.name} does not run"
        hint = f"`lbgen render TOPOLOGY -e {engine.name} -o DIR`, then `{engine.deploy_command}`"
        raise refuse(tier.plan, message, field, hint)
    if target.address and runs_in_kernel(engine, Plan("", (), (), ())):
        message = f"{engine.title} forwards in the kernel, which containers of {target.name} do not share"
        field = f"tiers.{tier.name}.engine" if tier.name else ""
        raise refuse(tier.plan, message, field, "--to systemd runs it on machines; another engine runs in containers")
    refuse_acme(request.topology, tier.plan, target.name)
    plan = _linked(tier.plan, target, counts)
    floating = None
    for beside in engines().values() if target.floating else ():
        if isinstance(beside, FloatsAddresses) and beside.name != engine.name:
            floating = _floating(plan, beside, beside.name) if tier.entry else None
            plan = replace(plan, engines=tuple(each for each in plan.engines if each[0] != beside.name))
    if target.address:
        _refuse_absolute(plan, target)
        plan = _in_container(plan, target)
    version = target_version(engine, plan.options(engine.name).version)
    modules = tuple(map(Path, engine.images.modules.get(version, ())))
    binary = Binary(Path(engine.binaries[0].command), version, modules)
    if target.drains:
        reached = replace(plan, admin_port=_free_port(plan))
        if engine.process(reached, binary, Path(target.work(plan.name))).drain_path:
            plan = reached
    rendered = render_with(engine, plan, version, request.accept)
    spec = engine.process(plan, binary, Path(target.work(plan.name)))
    model = (request.topology.model.tiers or {}).get(tier.name)
    hosts = tuple(model.hosts or ()) if model is not None else ()
    published = tuple(
        (f"[{x.address}]" if ":" in x.address else x.address, x.port, str(x.protocol)) for x in tier.plan.listeners
    )
    return Part(
        name=plan.name,
        tier=tier.name,
        plan=plan,
        engine=engine,
        version=version,
        spec=spec,
        rendered=rendered,
        replicas=counts[tier.name],
        entry=tier.entry,
        hosts=tuple(map(str, hosts)),
        published=published,
        floating=floating,
    )


def _floating(plan: Plan, beside: FloatsAddresses, name: str) -> RenderedFile | None:
    """Its file where the topology asks for it. LbgenError LB311 where no listener has an address."""
    found, place = beside.floating(plan), beside.floating_place
    if found is None and place in dict(plan.options(name).verbatim):
        hint = "write it: listeners: { web: { address: 192.0.2.10, port: 80 } }"
        raise refuse(plan, "no listener has an address that could float", f"engines.{name}.{place}", hint)
    return found


def _free_port(plan: Plan) -> int:
    taken = {x.port for x in plan.listeners} | ({plan.metrics.port} if plan.metrics is not None else set())
    return next(port for port in range(_ADMIN, _ADMIN + len(taken) + 1) if port not in taken)


def _asked(request: Request, tier: Tier) -> Engine:
    if request.engine is None:
        where = f"tier {tier.name}" if tier.name else "the topology"
        raise UsageError(Diagnostic("LB305", f"{where} names no engine", hint="name one: -e haproxy"))
    return engine_by_name(request.engine)


def _linked(plan: Plan, target: Target, counts: Mapping[str, int]) -> Plan:
    """`plan` with the target's names for the replicas of tiers, and with the number of addresses of each name."""
    topology = plan.tier.topology if plan.tier else ""

    def endpoints(pool: Pool) -> tuple[Endpoint, ...]:
        if pool.leads_to is None:
            several = 1 if pool.sticky else target.names
            known = (replace(x, in_cluster=x.in_cluster and not target.cluster) for x in pool.endpoints)
            return tuple(x if x.is_ip else replace(x, addresses=several, early=True) for x in known)
        tier = pool.leads_to[0]
        found = target.endpoints(f"{topology}-{tier}", counts[tier])
        first = pool.endpoints[0]
        named = (replace(first, host=host, is_ip=False, addresses=most) for host, most in found)
        every = tuple(replace(x, field=f"{pool.field}.endpoints[{n}]") for n, x in enumerate(named)) or pool.endpoints
        return tuple(replace(x, early=not x.is_ip) for x in every)

    return replace(plan, pools=tuple(replace(pool, endpoints=endpoints(pool)) for pool in plan.pools))


def _in_container(plan: Plan, target: Target) -> Plan:
    every = tuple(replace(x, address="::" if ":" in x.address else "0.0.0.0") for x in plan.listeners)  # noqa: S104
    metrics = None if plan.metrics is None else replace(plan.metrics, address="0.0.0.0")  # noqa: S104
    return replace(plan, listeners=every, metrics=metrics, resolvers=plan.resolvers or target.resolvers)


def refuse(plan: Plan, message: str, field: str, hint: str) -> LbgenError:
    """The error about a field that the target cannot hold at all."""
    return LbgenError(Diagnostic("LB311", message, plan.span(field), field, hint))


_CERTBOT = "in a container of its own, with certificates: of its files and acme_challenge: { forward: POOL }"
_ACME_ELSEWHERE = {
    "kubernetes": "cert-manager keeps it in a Secret: write certificates:, and name that Secret in place of the "
    "exported one",
    "gateway-api": "cert-manager obtains it for the Gateway: write certificates: for the names of its Secret",
    "systemd": "certbot.timer or lego keeps it on the machine: write certificates: of its files, and acme_challenge: "
    "{ directory: FOLDER }, which the agent serves there",
    "compose": f"run certbot or lego {_CERTBOT}",
    "swarm": f"run certbot or lego {_CERTBOT}",
}


def refuse_acme(topology: Topology, plan: Plan, target: str) -> None:
    """Raise LbgenError LB311 where the plan orders certificates: the agent of an exported stack has no folder in which
    they outlive it, and several replicas would each order them; also for a folder of challenges that is not there."""
    if plan.acme is None:
        return
    hint = _ACME_ELSEWHERE[target]
    for order in plan.acme.certificates:
        message = f"certificates by ACME are kept by `lbgen up`, and not by what is exported for {target}"
        raise refuse(plan, message, order.certificate.field, hint)
    field, written = "acme_challenge.directory", topology.model.acme_challenge
    if target != "systemd":
        raise refuse(plan, f"containers for {target} do not have this folder", field, hint)
    if written is not None and not str(written.directory).startswith("/"):
        message = f"machines have no folder {written.directory} beside the topology"
        raise refuse(plan, message, field, "write where the ACME client of the machines puts challenges: /var/www/acme")


def _refuse_absolute(plan: Plan, target: Target) -> None:
    for field, file in plan.named_files():
        if file.source is None:
            message = f"{file.path} is a path of a machine, which containers of {target.name} do not have"
            raise refuse(plan, message, field, "name it relative to the topology, so that it is exported too")


def kept_otherwise(plan: Plan, message: str, field: str, hint: str = "") -> Diagnostic:
    """The finding about a field that the target keeps in another way, which `message` says."""
    return Diagnostic("LB310", message, plan.span(field), plan.spans.origin(field), hint, Severity.WARNING)


def per_replica(part: Part, most: int | None) -> Iterator[Diagnostic]:
    """What holds for each of up to `most` replicas (None: one for each node) instead of for all of them."""
    if most == 1:
        return
    for feature, uses in part.plan.uses_by_feature().items():
        written = [use.field for use in uses if not use.default]
        if feature in _PER_REPLICA and written:
            yield kept_otherwise(part.plan, f"{feature}: {_PER_REPLICA[feature].format(n=most or 'N')}", written[0])


def weak_links(part: Part) -> Iterator[Diagnostic]:
    """Pools of replicas that come and go, without what keeps requests from being lost then."""
    for pool in part.plan.pools:
        if pool.leads_to is None:
            continue
        if pool.active is None:
            message = f"pool {pool.name}: without checks, requests go on to replicas that are gone until a name changes"
            yield kept_otherwise(part.plan, message, pool.field, "write health: { active: {} }")
        users = [x for x in part.plan.routes if isinstance(x.action, Forward) and _leads(x.action, pool.name)]
        l7 = {rule.route for x in part.plan.listeners for table in x.hosts for rule in table.rules}
        for route in users:
            if route.name in l7 and isinstance(route.action, Forward) and route.action.retries is None:
                message = f"route {route.name}: a request that meets a replica as it ends is lost"
                yield kept_otherwise(
                    part.plan, message, route.field, "write retries: { max: 1, on: [connect_failure, reset] }"
                )


def _leads(action: Forward, pool: str) -> bool:
    return any(target.pool == pool for target in action.targets)


def lost_addresses(part: Part, kept: str) -> Iterator[Diagnostic]:
    """What stands between clients and a tier in front: the addresses that fields go by (`kept` says how they are kept),
    and a listener's own address, which nothing there has."""
    if not part.entry:
        return
    for feature, uses in part.plan.uses_by_feature().items():
        if feature in _BY_CLIENT and any(not use.default for use in uses):
            yield kept_otherwise(part.plan, f"{feature}: {kept}", uses[0].field)
    for listener in part.plan.listeners:
        if listener.address_written:
            message = f"listener {listener.name} is at every address of its container, not at the one that is written"
            yield kept_otherwise(part.plan, message, f"{listener.field}.address")


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text.strip("\n") else None)


_Dumper.add_representer(str, _text)


def dump(*documents: object, header: str = "") -> str:
    """Documents as YAML in the order of their keys."""
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return f"{_comment(header)}{text}"


def _comment(header: str) -> str:
    return "".join(f"# {line}\n" for line in header.splitlines())


@cache
def _environment() -> Environment:
    return Environment(  # noqa: S701  # Markdown and configuration files, no HTML
        loader=FileSystemLoader(folder("templates") / "export"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def text_file(name: str, template: str, /, **values: object) -> RenderedFile:
    """A file of the export, made by a template of `templates/export`."""
    return RenderedFile(name, _environment().get_template(template).render(lbgen=VERSION, **values))


def load_script(part: Part, source: str, work: str, log: str, more: tuple[RenderedFile, ...] = ()) -> RenderedFile:
    """A shell script that puts the files of a part and `more` from the folder `source` into `work`, once the engine's
    own checker, where it ends by itself, has seen them; `log` is where the access log goes."""
    binary = Binary(Path(part.engine.binaries[0].command), part.version)
    spec = part.engine.check(part.plan, binary, Path(f"{work}/next"))
    copies = (each.path for each in part.rendered.copies if each.is_copied)
    names = sorted({*part.rendered, *(each.name for each in more), *copies})
    return text_file(
        LOAD,
        "load.sh.j2",
        work=work,
        source=source,
        agent=part.spec.agent,
        names=shlex.quote("".join(f"{name}\n" for name in names)),
        folders=shlex.join(sorted({str(Path(name).parent) for name in names} - {"."})),
        check="" if spec.serves else shlex.join(spec.argv),
        log=f"{log} {part.spec.access_log}" if part.spec.access_log else "",
    )


def exported(
    target: str,
    files: list[RenderedFile],
    copies: list[File],
    findings: list[Diagnostic],
    request: Request,
    parts: tuple[Part, ...] = (),
) -> Exported:
    """The folder, sorted by name. LbgenError LB311 where two tiers would have the same file (`web` with its agent, and
    `web-agent`)."""
    every = tuple(sorted(files, key=lambda file: file.name))
    for one, other in pairwise(every):
        if one.name == other.name:
            message, span = f"two tiers would have the file {one.name}", request.topology.span("tiers")
            raise LbgenError(Diagnostic("LB311", message, span, "tiers", "give one of them another name"))
    rendered = Rendered(target, VERSION, every, copies=tuple(copies))
    return Exported(target, rendered, tuple(dict.fromkeys(findings)), parts)
