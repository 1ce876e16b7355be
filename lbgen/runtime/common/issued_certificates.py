"""Where the files of certificates from ACME authorities come from: the folder in which the agent keeps them, with a
self-signed one until the first arrives."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from lbgen.agent.certificate_store import CertificateStore
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.acme import AcmeCertificate
from lbgen.plan.model import Plan
from lbgen.plan.tls import Certificate
from lbgen.runtime.common import state
from lbgen.runtime.common.certificates import write_self_signed


def store_folder(stack: str) -> Path:
    """Where the certificates of a stack are; `down` leaves them there."""
    return state.root() / "certificates" / stack


def with_store(plan: Plan, owner: tuple[int | None, int | None]) -> Plan:
    """`plan` with its certificates from ACME authorities in the folder of its stack, which is then the `owner`'s (uid,
    gid; None = ours). Where it has no certificate for any of the names, a self-signed one is written into it.

    Raises EngineError LB402 without the library that orders them, LB407 where only root can give it away, LB408.
    """
    if plan.acme is None:
        return plan
    _require_library(plan)
    uid, gid = owner
    if uid not in (None, os.geteuid()) and os.geteuid() != 0:
        message = f"certificates by ACME are kept in a folder of user {uid}, whom only root can give one"
        raise EngineError(Diagnostic("LB407", message, hint="run as root, or with --runtime local"))
    return _placed(plan, store_folder(plan.name), None if uid is None or gid is None else (uid, gid))


def with_self_signed(plan: Plan) -> Plan:
    """`plan` with self-signed certificates of this process in place of those from ACME authorities, so that no agent
    orders any; the same object where a runtime has said where they are."""
    if plan.acme is None or plan.acme.store is not None:
        return plan
    return replace(_placed(plan, _throw_away()), acme=None)


def _placed(plan: Plan, place: Path, owner: tuple[int, int] | None = None) -> Plan:
    assert plan.acme is not None  # noqa: S101 - the callers ask
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in plan.acme.certificates:
            _ensure(place, each)
        if owner is not None:
            for path in (place, *place.rglob("*")):
                os.chown(path, *owner, follow_symlinks=False)
    except OSError as error:
        raise EngineError(Diagnostic("LB408", f"{error.filename or place}: {error.strerror}")) from None
    return _with_sources(plan, place)


def _require_library(plan: Plan) -> None:
    """Raise EngineError LB402 where the plan orders certificates and the library for that is not installed."""
    orders = plan.acme is not None and plan.acme.certificates
    if orders and any(importlib.util.find_spec(name) is None for name in ("acme", "josepy")):
        message = "certificates by ACME need the Python packages acme and josepy"
        raise EngineError(Diagnostic("LB402", message, hint="pip install 'lbgen[acme]'"))


def _with_sources(plan: Plan, folder: Path) -> Plan:
    def pair(each: Certificate) -> Certificate:
        if not each.cert.issued:
            return each
        name = PurePosixPath(each.cert.path).name
        cert, key = str(folder / name), str(folder / f"{name}.key")
        return replace(each, cert=replace(each.cert, source=cert), key=replace(each.key, source=key))

    assert plan.acme is not None  # noqa: S101 - the caller asked
    listeners = tuple(
        x if x.tls is None else replace(x, tls=replace(x.tls, certificates=tuple(map(pair, x.tls.certificates))))
        for x in plan.listeners
    )
    orders = tuple(replace(each, certificate=pair(each.certificate)) for each in plan.acme.certificates)
    return replace(plan, listeners=listeners, acme=replace(plan.acme, certificates=orders, store=str(folder)))


def _ensure(folder: Path, order: AcmeCertificate) -> None:
    name = PurePosixPath(order.certificate.cert.path).name
    found = CertificateStore(folder).pair(name)
    if found is None or not found.names.intersection(order.domains):
        write_self_signed(folder / name, folder / f"{name}.key", order.domains)


@cache
def _throw_away() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lbgen-certificates-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
