"""TLS of listeners: Traefik's certificates and options, and TCP routers that close what Traefik itself would answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.document import Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.view import CAN, Contributor
from lbgen.plan.model import HostPattern, Listener, Mode, Plan
from lbgen.plan.tls import Certificate, ListenerTls

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# Priorities before and after those of L4 rules, which begin at 1.
FIRST = 1_000_000
LAST = -1

# Cipher suites: OpenSSL's name, Go's name.
_SUITES = {
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
}
_CURVES = {"P-256": "CurveP256", "P-384": "CurveP384", "P-521": "CurveP521"}  # others have the same name
_VERSIONS = {"1.0": "VersionTLS10", "1.1": "VersionTLS11", "1.2": "VersionTLS12", "1.3": "VersionTLS13"}
_FIRST_SHOWN = approximate(
    "Traefik shows clients without a server name the first certificate of the first TLS listener, on this listener too",
    {"listener.tls.no_sni.other": "tls"},
)
_TWICE = refused(f"Traefik picks either of two certificates that hold the same name{CAN}")


def find_terminating(listeners: Iterable[Listener]) -> Iterator[tuple[Listener, ListenerTls]]:
    """The listeners that terminate TLS."""
    for listener in listeners:
        if listener.tls is not None and not listener.tls.passthrough:
            yield listener, listener.tls


def build_tls(listeners: Sequence[Listener]) -> dict[str, Data]:
    """The `tls` section: certificates belong to the process, options to a listener; empty without TLS. Options that all
    listeners share are Traefik's default ones."""
    found = list(find_terminating(listeners))
    if not found:
        return {}
    first = found[0][1].certificates[0]
    options: dict[str, Data] = {names.edge(listener): _options(listener, tls) for listener, tls in found}
    if _share_options(listeners):
        options = {"default": _options(*found[0])}
    return {
        "certificates": [Tagged(certificate.field, _pair(certificate)) for certificate in list_certificates(listeners)],
        "stores": {"default": {"defaultCertificate": Tagged(first.field, _pair(first))}},
        "options": options,
    }


def find_options(listeners: Sequence[Listener]) -> dict[str, Data]:
    """The `tls` of the routers of each L7 listener that terminates TLS."""
    shared = _share_options(listeners)
    return {
        listener.name: {} if shared else {"options": names.edge(listener)}
        for listener, _ in find_terminating(listeners)
        if listener.mode is Mode.L7
    }


def _share_options(listeners: Sequence[Listener]) -> bool:
    found = {
        (listener.http2, each.min_version, each.curves, each.ciphers, each.client_ca, each.client_required)
        for listener, each in find_terminating(listeners)
    }
    return len(found) == 1 and all(listener.mode is Mode.L7 for listener, _ in find_terminating(listeners))


def build_unknown_names(listeners: Sequence[Listener]) -> dict[str, dict[str, Data]]:
    """The TCP routers that close connections for names that no certificate of their L7 listener holds, and the service
    without servers that does it."""
    routers: dict[str, Data] = {}
    services: dict[str, Data] = {}
    for listener, _ in find_terminating(listeners):
        if listener.mode is Mode.L7:
            unknown = f"{names.edge(listener)}-unknown"
            routers[unknown] = build_closing_routers(listener)[unknown]
            services.update(build_closed_service(names.edge(listener)))
    return {"routers": routers, "services": services}


def list_certificates(listeners: Iterable[Listener]) -> tuple[Certificate, ...]:
    """Every certificate once, in order."""
    return tuple({c.cert.path: c for _, tls in find_terminating(listeners) for c in tls.certificates}.values())


def _pair(certificate: Certificate) -> dict[str, Data]:
    return {"certFile": certificate.cert.path, "keyFile": certificate.key.path}


def _options(listener: Listener, tls: ListenerTls) -> Tagged:
    data: dict[str, Data] = {
        "minVersion": _VERSIONS[tls.min_version],
        "alpnProtocols": ["h2", "http/1.1"] if listener.http2 else ["http/1.1"],
    }
    if tls.curves:
        data["curvePreferences"] = [_CURVES.get(curve, curve) for curve in tls.curves]
    if tls.ciphers:
        data["cipherSuites"] = [_SUITES[cipher] for cipher in tls.ciphers]
    if tls.client_ca is not None:
        kind = "RequireAndVerifyClientCert" if tls.client_required else "VerifyClientCertIfGiven"
        data["clientAuth"] = {"caFiles": [tls.client_ca.path], "clientAuthType": kind}
    return Tagged(f"{listener.field}.tls", data)


def build_closing_routers(listener: Listener) -> dict[str, Data]:
    """The TCP routers of a listener that close what Traefik itself would answer: server names that no certificate
    holds, and TLS or plain bytes where the other is expected. On an L4 listener: what no rule matches.

    A router for TLS makes Traefik read from the client before it forwards, answer PostgreSQL's question for TLS and
    tell handshakes from other bytes; an L4 listener without TLS has none, so that its bytes pass whoever speaks first.
    """
    name = names.edge(listener)
    routers: dict[str, Data] = {}
    if listener.tls is not None and not listener.tls.passthrough:
        known = sorted({_regex(host) for certificate in listener.tls.certificates for host in certificate.names})
        unknown = f"HostSNIRegexp(`^.+$`) && !HostSNIRegexp(`^(?:{'|'.join(known)})$`)"
        routers[f"{name}-unknown"] = _router(listener, unknown, FIRST, tls=True)
    is_l4 = listener.mode is Mode.L4
    if is_l4 == (listener.tls is not None):
        routers[f"{name}-other-tls"] = _router(listener, "HostSNI(`*`)", LAST, tls=True)
    if is_l4 or listener.tls is not None:
        routers[f"{name}-other"] = _router(listener, "HostSNI(`*`)", LAST, tls=False)
    return routers


def _router(listener: Listener, rule: str, priority: int, *, tls: bool) -> Tagged:
    data: dict[str, Data] = {
        "entryPoints": [names.entry_point(listener)],
        "rule": rule,
        "priority": priority,
        "service": f"{names.edge(listener)}-closed",
    }
    if tls:
        data["tls"] = {"passthrough": True}
    return Tagged(listener.field, data)


def build_closed_service(name: str) -> dict[str, Data]:
    """The service of those routers: it has no server, so it closes every connection."""
    return {f"{name}-closed": {"loadBalancer": {"servers": []}}}


def escape_regex(name: str) -> str:
    """A host name as a regular expression."""
    return name.replace(".", "\\.")


def _regex(host: HostPattern) -> str:
    return rf"[^.]+\.{escape_regex(host.name)}" if host.wildcard else escape_regex(host.name)


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    found = list(find_terminating(plan.listeners))
    for listener, tls in found[1:]:
        if tls.certificates[0].cert.path != found[0][1].certificates[0].cert.path:
            yield Objection(_FIRST_SHOWN, f"{listener.field}.tls", "listener.tls.no_sni")
    holders: dict[str, str] = {}
    for certificate in list_certificates(plan.listeners):
        for name in certificate.names:
            if holders.setdefault(str(name), certificate.cert.path) != certificate.cert.path:
                yield Objection(_TWICE, certificate.field, "listener.tls")
                break


TLS = Contributor(objections=_objections)
