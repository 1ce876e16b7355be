"""TLS of listeners (`bind` lines and lists of certificates) and of pools (`server` lines)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lbgen.engines.api import Objection, RenderedFile, refused, version_key
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.run import PID_FILE
from lbgen.engines.haproxy.statements import Section, Statement, Word, acl, section, statement
from lbgen.engines.haproxy.view import Contributor, PoolUse
from lbgen.engines.text import Literal
from lbgen.plan.features import Feature
from lbgen.plan.model import Endpoint, HostPattern, Listener, Mode, Plan
from lbgen.plan.tls import HYBRID, Certificate, ListenerTls

_SAFE_PATH = re.compile(r"[A-Za-z0-9/._-]+")


def tls_options(listener: Listener, tls: ListenerTls) -> Iterator[str | Word]:
    """What makes a `bind` line speak TLS."""
    yield f"ssl crt-list {listener.name}.crt-list ssl-min-ver TLSv{tls.min_version}"
    if tls.ciphers:
        yield f"ciphers {':'.join(tls.ciphers)}"
    if tls.curves:
        yield f"curves {':'.join(tls.curves)}"
    if tls.client_ca is not None:
        yield f"verify {'required' if tls.client_required else 'optional'} ca-file"
        yield Literal(tls.client_ca.path)
    if listener.mode is Mode.L7:
        yield f"alpn {'h2,http/1.1' if listener.http2 else 'http/1.1'}"


def reject_unknown_names(tls: ListenerTls, field: str, maps: Maps) -> Statement:
    """Close connections of clients that ask for a name which no certificate has: HAProxy gives them the first one, as
    it should those without a name. Its `strict-sni` would refuse both."""
    every = dict.fromkeys(name for certificate in tls.certificates for name in certificate.names)
    exact = [name.name for name in every if not name.wildcard]
    above = [f".{name.name}" for name in every if name.wildcard]
    known = [
        maps.is_one_of(sample, names, purpose, dict.fromkeys(names, field))
        for sample, names, purpose in (
            ("ssl_fc_sni,lower", exact, "names"),
            ("ssl_fc_sni,lower,regsub(^[^.]*,)", above, "domains"),
        )
        if names
    ]
    return statement(
        "tcp-request session reject", when=[acl("ssl_fc_sni -m found"), *(~each for each in known)], origin=field
    )


def stored_certificates(listeners: Iterable[Listener]) -> Iterator[Statement]:
    """Certificates of listeners whose keys HAProxy does not find by itself, at `<certificate>.key`; each once."""
    every = (each for listener in listeners if listener.tls is not None for each in listener.tls.certificates)
    by_path = {each.cert.path: each for each in every}
    for each in by_path.values():
        if not _has_key_beside(each):
            yield statement("load crt", Literal(each.cert.path), "key", Literal(each.key.path), origin=each.field)


def _has_key_beside(certificate: Certificate) -> bool:
    return certificate.key.path == f"{certificate.cert.path}.key"


def certificate_list(listener: Listener) -> RenderedFile | None:
    """The crt-list: each certificate with the names that it serves; None for a listener that does not terminate TLS."""
    if listener.tls is None or listener.tls.passthrough:
        return None
    lines, origins = ["# certificate, names"], [""]
    assigned: set[HostPattern] = set()
    for number, certificate in enumerate(listener.tls.certificates):
        names = [name for name in certificate.names if name not in assigned]
        assigned.update(names)
        if names or not number:
            lines.append(" ".join([certificate.cert.path, *map(str, names)]))
            origins.append(certificate.field)
    return RenderedFile(f"{listener.name}.crt-list", "\n".join(lines) + "\n", tuple(origins))


def _server(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str | Word]:
    """HAProxy reads the key of a certificate from `<certificate>.key`."""
    tls = use.pool.tls
    if tls is None:
        return
    yield "ssl ssl-min-ver TLSv1.2"
    if tls.verify:
        yield "verify required ca-file"
        yield Literal(tls.ca.path) if tls.ca is not None else "@system-ca"
    else:
        yield "verify none"
    name = tls.server_name or (None if endpoint.is_ip else endpoint.host)
    if name is not None:
        yield f"sni str({name})"
        if use.pool.active or use.pool.passive:
            yield f"check-sni {name}"
        if tls.verify:
            yield f"verifyhost {name}"
    if tls.certificate is not None:
        yield "crt"
        yield Literal(tls.certificate.cert.path)


def _listener_objections(plan: Plan, version: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.tls is None:
            continue
        if HYBRID in listener.tls.curves:
            why = f"HAProxy knows {HYBRID} with OpenSSL 3.5 or newer only, and offers it by itself there"
            yield Objection(refused(f"{why}: leave curves out"), f"{listener.field}.tls.curves", "listener.tls.curves")
        has_store = version_key(version) >= (3, 0)  # `crt-store` names the key of a certificate
        for certificate in listener.tls.certificates:
            yield from _key_objections(certificate, certificate.field, "listener.tls", has_store)


def _pool_objections(plan: Plan, _: str) -> Iterator[Objection]:
    for pool in plan.pools:
        if (tls := pool.tls) is None:
            continue
        if tls.verify and tls.server_name is None and any(endpoint.is_ip for endpoint in pool.endpoints):
            why = "HAProxy compares a certificate with a name, never with an address; give `server_name`"
            yield Objection(refused(why), f"{pool.field}.tls", "pool.tls")
        if tls.certificate is not None:
            yield from _key_objections(tls.certificate, f"{pool.field}.tls.certificate", "pool.tls", False)


def _key_objections(certificate: Certificate, field: str, feature: Feature, has_store: bool) -> Iterator[Objection]:
    if not all(_SAFE_PATH.fullmatch(each.path) for each in (certificate.cert, certificate.key)):
        yield Objection(refused("a path holds only letters, digits and / . _ -"), field, feature)
    elif not _has_key_beside(certificate) and not has_store:
        why = f"HAProxy looks for the key at {certificate.cert.path}.key; put it there, or name both by relative paths"
        yield Objection(refused(why), field, feature)


def _settings(plan: Plan, _: str) -> Iterator[Section]:
    if plan.acme is not None:
        pid = statement(f"pidfile {PID_FILE}", comment="by which lbgen's agent has new certificates loaded")
        yield section("", [pid])


TLS = Contributor(settings=_settings, objections=_listener_objections)
POOL_TLS = Contributor(server=_server, objections=_pool_objections)
