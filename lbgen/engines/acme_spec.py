"""What `lbgen agent` needs to obtain certificates and to answer challenges: the file acme.json."""

from __future__ import annotations

import json
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import Engine, RenderedFile
from lbgen.plan.acme import CHALLENGES
from lbgen.plan.model import Mode, Plan

FILE = "acme.json"
FORMAT = 1


class CertificateReload(Struct, frozen=True):
    """How an engine loads certificates that were replaced in its folder. `signal` (SIGHUP) goes to the process whose
    pid is in `pid_file` (relative to the folder) and whose name is `program`; "" for an engine that watches files, of
    which `rewritten` are replaced by themselves, as it watches these only."""

    program: str = ""
    pid_file: str = ""
    signal: str = ""
    rewritten: tuple[str, ...] = ()


class OrderedCertificate(Struct, frozen=True):
    """Paths are relative to the folder of the file, or absolute; `directory` is the URL of the authority, `ca` None =
    an authority of the system's signed its certificate."""

    name: str
    domains: tuple[str, ...]
    cert: str
    key: str
    directory: str
    email: str | None
    ca: str | None


class AcmeSpec(Struct, frozen=True):
    """`port`: of the agent's server of challenges, on loopback, to which the `listeners` (address, port) lead.
    `webroot`: a folder whose files it serves too."""

    engine: str
    port: int
    listeners: tuple[tuple[str, int], ...]
    certificates: tuple[OrderedCertificate, ...]
    webroot: str | None
    reload: CertificateReload
    format: int = FORMAT


@runtime_checkable
class LoadsCertificates(Protocol):
    """An engine that loads replaced certificates while it serves; beside `lbgen.engines.api.Engine`."""

    def certificate_reload(self, plan: Plan) -> CertificateReload:
        """How it does."""
        ...


def acme_files(plan: Plan, target: Engine) -> tuple[RenderedFile, ...]:
    """The file for the agent; nothing where the agent neither obtains certificates nor answers challenges. Raises
    EngineError LB301 for an engine that loads no certificates while it serves."""
    if plan.acme is None:
        return ()
    if not isinstance(target, LoadsCertificates):
        message = f"{target.title} loads no certificates while it serves"
        raise EngineError(Diagnostic("LB301", message, field="listener.tls.acme"))
    spec = AcmeSpec(
        engine=target.name,
        port=plan.acme.port,
        listeners=tuple((x.address, x.port) for x in plan.listeners if x.mode is Mode.L7 and not x.terminates_tls),
        certificates=tuple(
            OrderedCertificate(
                name=each.name,
                domains=each.domains,
                cert=each.certificate.cert.path,
                key=each.certificate.key.path,
                directory=each.directory,
                email=each.email,
                ca=None if each.ca is None else each.ca.path,
            )
            for each in plan.acme.certificates
        ),
        webroot=plan.acme.webroot,
        reload=target.certificate_reload(plan),
    )
    text = json.dumps(msgspec.to_builtins(spec), indent=1) + "\n"
    return (RenderedFile(FILE, text, (CHALLENGES,) * text.count("\n")),)
