"""Run an engine's own checker on the rendered files of a plan."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from signal import SIGTERM

from lbgen.agent.admin_client import SETTLE, fetch_json
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import Binary, CheckSpec, Deployed, Engine, target_version
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.rendered import Rendered, render_with
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_addresses, with_admin, with_ports, with_version, without_admin
from lbgen.runtime.common import ports
from lbgen.runtime.common.executables import find_checker, find_for
from lbgen.runtime.common.issued_certificates import with_self_signed
from lbgen.runtime.common.readiness import CHECK_SECONDS, refused_files
from lbgen.runtime.common.selection import for_routes, judge_with_resolvers
from lbgen.runtime.local.spawn import (
    KILLED,
    User,
    accessible_copy,
    chown_tree,
    engine_user,
    how_ended,
    make_engine_directory,
    spawn,
    stop,
)

_LOG = "checker.log"


def check(
    plan: Plan,
    target: Engine | str,
    binary: Binary | None = None,
    *,
    version: str | None = None,
    accept: tuple[str, ...] = (),
    directory: Path | None = None,
    rendered: Rendered | None = None,
) -> tuple[Diagnostic, ...]:
    """LB401 for each problem that the engine's checker reports in the rendered files of `plan`.

    Runs unprivileged in a folder of its own (`directory` keeps it). Privileged ports and addresses that this host does
    not have are replaced first, since nginx and Traefik bind them even for a check of the files alone. `rendered` are
    the files of `plan`, if already rendered.
    Raises LbgenError (verdicts), EngineError LB402 (no executable), LB403 (the checker did not end in 30 s, or longer
    in proportion where there are more than 1,000 routes), LB407 (nftables, no root and no namespace to be had).
    """
    if isinstance(target, str):
        target = engine_by_name(target)
    if isinstance(target, Deployed):
        binary, version = find_checker(target), target_version(target, version or plan.options(target.name).version)
    else:
        binary, version = find_for(plan, target, binary, version)
    plan = with_self_signed(plan)
    user = engine_user()
    place = directory or make_engine_directory(f"lbgen-check-{target.name}-", user)
    try:
        plan, _ = judge_with_resolvers(with_version(plan, target.name, version), target, version, accept)
        if not isinstance(target, Deployed):
            binary = accessible_copy(binary, place, user)
        spec = target.check(plan, binary, place)
        limit = for_routes(plan, CHECK_SECONDS)
        kernel = target.process(plan, binary, place).kernel
        binds = not kernel and not isinstance(target, Deployed)
        checkable = _checkable(plan, serves=spec.serves) if binds else plan
        if rendered is None or checkable is not plan:
            rendered = render_with(target, checkable, version, accept)
        plan = checkable
        spec = target.check(plan, binary, place)
        rendered.write(place)
        (place / _LOG).touch()
        chown_tree(place, user)
        if spec.serves:
            problems = _ask(spec, plan, place, user, target.title, limit)
        elif kernel:
            problems = _run(_in_namespace(spec.argv), spec, place, User(), target.title, limit)
        else:
            problems = _run(spec.argv, spec, place, user if binds else User(), target.title, limit)
    finally:
        if directory is None:
            shutil.rmtree(place, ignore_errors=True)
    checker = target.checker.command if isinstance(target, Deployed) else target.title
    return tuple(refused_files(plan, f"{checker} {binary.version}", problems))


def _checkable(plan: Plan, *, serves: bool) -> Plan:
    """`plan` on addresses and ports that can be bound here; the same object if nothing changes. When the checker
    serves, every port is replaced, and an admin port is added; else there is none, as nobody asks there."""
    first, start = ports.first_unprivileged(), 20_000 + os.getpid() % 4000
    addresses: dict[str, str] = {}
    moved: dict[str, int] = {}
    taken: frozenset[int] = frozenset(x.port for x in plan.listeners)
    for listener in plan.listeners:
        own = ports.has_address(listener.address)
        if not own:
            addresses[listener.name] = "::1" if ":" in listener.address and ports.has_address("::1") else "127.0.0.1"
        if serves or not own or listener.port < first:
            moved[listener.name] = ports.free_port(addresses.get(listener.name, listener.address), start, taken)
            taken |= {moved[listener.name]}
    if moved or addresses:
        plan = with_addresses(with_ports(plan, moved), addresses)
    if serves:
        return with_admin(plan, ports.free_port("127.0.0.1", start, taken))
    return without_admin(plan)


def _run(argv: tuple[str, ...], spec: CheckSpec, place: Path, user: User, title: str, limit: float) -> tuple[str, ...]:
    with (place / _LOG).open("ab") as output:
        process = spawn(argv, user=user, directory=place, output=output)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        raise EngineError(Diagnostic("LB403", f"{title}'s checker did not end in {limit:g} s")) from None
    finally:
        stop(process, SIGTERM, 1.0)
    _check_exit(code, title)
    return spec.judge(code, _log_text(place), {})


def _check_exit(code: int, title: str) -> None:
    """Raise EngineError LB403 when a signal ended the checker, which says nothing about the files."""
    if code < 0:
        raise EngineError(Diagnostic("LB403", f"{title}'s checker {how_ended(code)}", hint=KILLED))


def _in_namespace(argv: tuple[str, ...]) -> tuple[str, ...]:
    """`argv` in a network namespace of its own: nft needs the kernel even for a check."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise EngineError(Diagnostic("LB402", "no executable of unshare was found", hint="install util-linux"))
    flags = ("--net",) if os.geteuid() == 0 else ("--user", "--map-root-user", "--net")
    allowed = subprocess.run((unshare, *flags, "true"), capture_output=True, check=False)  # noqa: S603 - fixed words
    if allowed.returncode != 0:
        raise EngineError(Diagnostic("LB407", "nft can only check as root on this host", hint="run as root"))
    return (unshare, *flags, *argv)


def _ask(spec: CheckSpec, plan: Plan, place: Path, user: User, title: str, limit: float) -> tuple[str, ...]:
    """Start the engine on free ports, read from its admin port what it loaded, and stop it."""
    with (place / _LOG).open("ab") as output:
        process = spawn(spec.argv, user=user, directory=place, output=output)
    end = time.monotonic() + limit
    before: dict[str, object] | None = None
    try:
        while time.monotonic() < end:
            code = process.poll()
            if code is not None:
                _check_exit(code, title)
                return spec.judge(code, _log_text(place), {})
            now = fetch_json(plan.admin_port, spec.ask)
            if now is not None and now == before:
                return spec.judge(0, _log_text(place), now)
            before = now
            time.sleep(SETTLE if now is not None else 0.05)
    finally:
        stop(process, SIGTERM, 3.0)
    raise EngineError(Diagnostic("LB403", f"{title} did not answer on its admin port in {limit:g} s"))


def _log_text(place: Path) -> str:
    return (place / _LOG).read_text(encoding="utf-8", errors="replace")
