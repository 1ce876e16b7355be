"""systemd: a hardened unit for each tier, one for its agent, and an Ansible playbook that copies all of it."""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import Struct

from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import RenderedFile
from lbgen.exporters.containers import GRACE_SECONDS, has_low_port
from lbgen.exporters.parts import (
    LOAD,
    Exported,
    Part,
    Request,
    Target,
    build_parts,
    dump,
    exported,
    kept_otherwise,
    load_script,
    text_file,
)
from lbgen.runtime.docker.desired import NEXT_SIGNAL, hot_restart_script
from lbgen.runtime.orchestrators.names import label

USER = "lbgen"
_ETC, _RUN = "/etc/lbgen", "/run/lbgen"
_LOGS = "/var/log/lbgen"
# An engine listens at the floating address before its machine has it.
_NOT_HERE = "net.ipv4.ip_nonlocal_bind = 1\n-net.ipv6.ip_nonlocal_bind = 1\n"
_HOT = "start.sh"  # of an engine that reloads by another process beside the first
_TARGET = Target(
    "systemd",
    work=lambda name: f"{_RUN}/{name}",
    endpoints=lambda name, count: (),  # as in the topology: its hosts, or names that they have
    address=False,
    floating=True,
)


class Unit(Struct, frozen=True):
    """What the template of a unit needs; commands are lines of ExecStart= and its like."""

    part: Part
    start: str
    prepare: tuple[str, ...]
    reload: tuple[str, ...]
    stop: tuple[str, ...]
    capabilities: str
    user: str
    kind: str

    @property
    def folder(self) -> str:
        """Where the engine runs."""
        return f"{_RUN}/{self.part.name}"

    @property
    def config(self) -> str:
        """Where the playbook puts the files."""
        return f"{_ETC}/{self.part.name}"


def export(request: Request) -> Exported:
    """Units, users and folders for systemd, the engines' files, a playbook with its inventory, and a README."""
    parts = build_parts(request, _TARGET)
    files: list[RenderedFile] = []
    findings: list[Diagnostic] = []
    for part in parts:
        unit = _unit(part)
        hot = (RenderedFile(_HOT, hot_restart_script(part.spec.hot_restart_argv)),) if _is_hot(part) else ()
        load = load_script(part, f"{_ETC}/{part.name}", f"{_RUN}/{part.name}", f"{_LOGS}/{part.name}.log", hot)
        files += part.files(f"files/{part.name}", (*hot, load))
        files.append(text_file(f"units/lbgen-{part.name}.service", "engine.service.j2", v=unit))
        if part.spec.agent:
            files.append(text_file(f"units/lbgen-{part.name}-agent.service", "agent.service.j2", v=unit))
        if part.floating is not None:
            files.append(text_file(f"units/lbgen-{part.name}-floating.service", "floating.service.j2", v=unit))
            files.append(RenderedFile(f"files/{part.name}/{part.floating.name}", part.floating.text))
            files.append(RenderedFile(f"sysctl.d/lbgen-{part.name}.conf", _NOT_HERE))
        if unit.reload == () and not part.spec.watched:
            message = f"{part.engine.title} has no reload here: a change restarts it, and cuts open connections"
            findings.append(kept_otherwise(part.plan, message, part.plan.listeners[0].field))
    files.append(RenderedFile("sysusers.d/lbgen.conf", f'u {USER} - "load balancers of lbgen" / /usr/sbin/nologin\n'))
    files += [text_file(f"tmpfiles.d/lbgen-{request.name}.conf", "tmpfiles.j2", parts=parts, etc=_ETC, user=USER)]
    if any(part.spec.access_log for part in parts):
        files.append(text_file("logrotate.d/lbgen", "logrotate.j2", user=USER))
    files += [_inventory(parts), _playbook(request, parts), _readme(request, parts)]
    copies = [copy for part in parts for copy in part.copies(f"files/{part.name}")]
    return exported("systemd", files, copies, findings, request, parts)


def _is_hot(part: Part) -> bool:
    return bool(part.spec.hot_restart_argv)


def _unit(part: Part) -> Unit:
    spec, folder = part.spec, f"{_RUN}/{part.name}"
    files = f"/bin/sh {_ETC}/{part.name}/{LOAD}"
    prepare = (files, *map(_command, spec.setup if spec.argv else ()))
    user, kind = (USER, "exec") if not spec.kernel else ("root", "exec" if spec.argv else "oneshot")
    load = tuple(map(_command, spec.setup))
    if _is_hot(part):
        start = f"/bin/sh {folder}/{_HOT}"
        reload: tuple[str, ...] = (files, f"kill -{NEXT_SIGNAL.removeprefix('SIG')} $MAINPID")
    elif spec.argv:
        start = _command(spec.argv)
        signal = () if spec.reload is None else (f"kill -{spec.reload.name.removeprefix('SIG')} $MAINPID",)
        reload = (files, *(load if spec.kernel else ()), *signal) if signal or spec.watched else ()
    else:
        start, reload = load[0], (files, *load)
    capabilities = "CAP_NET_ADMIN" if spec.kernel else "CAP_NET_BIND_SERVICE" if has_low_port(part.plan) else ""
    if spec.kernel and spec.argv:
        capabilities += " CAP_NET_RAW CAP_NET_BROADCAST"
    stop = tuple(f"-{_command(each)}" for each in spec.teardown)
    return Unit(part, start, prepare, reload, stop, capabilities, user, kind)


def _command(argv: tuple[str, ...]) -> str:
    """A command line as systemd reads it: `$` and `%` doubled, words quoted as a shell does."""
    return (
        " ".join(f'"{word}"' if " " in word and '"' not in word else shlex.quote(word) for word in argv)
        .replace("%", "%%")
        .replace("$", "$$")
    )


def _inventory(parts: tuple[Part, ...]) -> RenderedFile:
    """Each tier's machines as the topology names them, or as they are to be named."""
    groups: dict[str, Any] = {}
    for part in parts:
        numbered = bool(part.tier) or part.replicas > 1
        names = part.hosts or tuple(f"{part.name}-{n + 1}" if numbered else part.name for n in range(part.replicas))
        groups[_group(part)] = {"hosts": {name: {} for name in names}}
    return RenderedFile("inventory.yaml", dump({"all": {"children": groups}}))


def _group(part: Part) -> str:
    return label(part.name).replace("-", "_")


def _playbook(request: Request, parts: tuple[Part, ...]) -> RenderedFile:
    rows = [(_group(part), part, _units(part), bool(_unit(part).reload)) for part in parts]
    return text_file("playbook.yaml", "playbook.yaml.j2", parts=rows, name=request.name, etc=_ETC)


def _units(part: Part) -> tuple[str, ...]:
    more = (("-agent", part.spec.agent), ("-floating", part.floating is not None))
    return (f"lbgen-{part.name}", *(f"lbgen-{part.name}{suffix}" for suffix, there in more if there))


def _readme(request: Request, parts: tuple[Part, ...]) -> RenderedFile:
    rows = [(part, _units(part)) for part in parts]
    return text_file("README.md", "systemd.md.j2", name=request.name, parts=rows, etc=_ETC, grace=GRACE_SECONDS)
