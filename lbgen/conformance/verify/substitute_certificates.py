"""A plan that trusts its user's authorities -> the same plan with throw-away ones in their place, whose certificates
stand-ins and clients can show. Nothing else of the files changes: a copied file keeps its name, another one its length
of life only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.verify.addresses import LOOPBACK
from lbgen.conformance.verify.credentials import admit_ours
from lbgen.plan.model import Listener, Plan, Pool
from lbgen.plan.tls import Certificate, File
from lbgen.runtime.common.certificates import CA, CLIENT_CA, FOREIGN_CA, Spec, make
from lbgen.runtime.common.issued_certificates import with_self_signed
from lbgen.runtime.standins.stand_in import StandInTls

CLIENT, FOREIGN, WRONG = "client", "client-foreign", "wrong-name"


class CertifiedPlan(Struct, frozen=True):
    """`plan` with files of `folder`; `instead` are (path as configs say it, text of the file there now)."""

    plan: Plan
    folder: Path
    replacements: tuple[tuple[str, Path], ...]


@contextmanager
def certify(plan: Plan, *, users: bool = True) -> Iterator[CertifiedPlan]:
    """The plan with authorities of ours, and with `users` a user and a key of ours too, for as long as the block
    lasts."""
    plan = with_self_signed(plan)
    folder = Path(mkdtemp(prefix="lbgen-certificates-"))
    try:
        folder.chmod(0o755)  # engines run as another user
        if any(x.tls is not None for x in plan.listeners) or any(x.tls is not None for x in plan.pools):
            pools = [_spec(pool) for pool in plan.pools if pool.tls is not None]
            others = (Spec(WRONG, ("other.invalid",)), Spec(CLIENT, issuer=CLIENT_CA), Spec(FOREIGN, issuer=FOREIGN_CA))
            make(folder, (*pools, *others))
        listeners = tuple(_listener(x, folder) for x in plan.listeners)
        swapped = replace(
            admit_ours(plan) if users else plan, listeners=listeners, pools=tuple(_pool(x, folder) for x in plan.pools)
        )
        yield CertifiedPlan(swapped, folder, tuple(_instead(plan, swapped)))
    finally:
        rmtree(folder, ignore_errors=True)


def stand_in_tls(pool: Pool, folder: Path, name: str = "") -> StandInTls | None:
    """What an endpoint of that pool speaks; `name`: with another certificate."""
    if pool.tls is None:
        return None
    certificate, key = (str(folder / f"{name or _name(pool)}.{kind}") for kind in ("crt", "key"))
    asks = pool.tls.certificate is not None
    return StandInTls(certificate, key, str(folder / f"{CLIENT_CA}.crt") if asks else "", asks)


def _name(pool: Pool) -> str:
    return f"pool-{pool.name}"


def _spec(pool: Pool) -> Spec:
    assert pool.tls is not None  # noqa: S101  # the caller asked
    hosts = tuple(dict.fromkeys((*(endpoint.host for endpoint in pool.endpoints), LOOPBACK)))
    return Spec(_name(pool), hosts if pool.tls.server_name is None else (pool.tls.server_name,))


def _listener(listener: Listener, folder: Path) -> Listener:
    if listener.tls is None or listener.tls.client_ca is None:
        return listener
    return replace(listener, tls=replace(listener.tls, client_ca=_swapped(listener.tls.client_ca, folder, CLIENT_CA)))


def _pool(pool: Pool, folder: Path) -> Pool:
    if pool.tls is None:
        return pool
    shown = pool.tls.certificate
    # Without an authority of its own a pool trusts the system's, which will not sign for us.
    ca = _swapped(pool.tls.ca or File(""), folder, CA) if pool.tls.verify else pool.tls.ca
    return replace(pool, tls=replace(pool.tls, ca=ca, certificate=shown and _certificate(shown, folder)))


def _certificate(shown: Certificate, folder: Path) -> Certificate:
    return replace(shown, cert=_swapped(shown.cert, folder, CLIENT), key=_swapped(shown.key, folder, CLIENT, "key"))


def _swapped(file: File, folder: Path, name: str, kind: str = "crt") -> File:
    """Ours in its place: a copy is made of ours, a file referenced as it stands becomes ours."""
    ours = str(folder / f"{name}.{kind}")
    return replace(file, path=ours) if file.source is None else replace(file, source=ours)


def _instead(plan: Plan, swapped: Plan) -> Iterator[tuple[str, Path]]:
    for old, new in zip(_authorities(plan), _authorities(swapped), strict=True):
        if old is not None and new is not None and old != new:
            yield old.path, Path(new.source or new.path)


def _authorities(plan: Plan) -> Iterator[File | None]:
    for listener in plan.listeners:
        yield None if listener.tls is None else listener.tls.client_ca
    for pool in plan.pools:
        shown = None if pool.tls is None else pool.tls.certificate
        yield None if pool.tls is None else pool.tls.ca
        yield None if shown is None else shown.cert
        yield None if shown is None else shown.key
