"""TLS and PROXY headers of connections: from clients the server names and certificates, to endpoints the sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, habit
from lbgen.engines.document import Tagged
from lbgen.engines.envoy.matching import escape_regex
from lbgen.engines.envoy.protobuf import extension, typed, watch
from lbgen.engines.envoy.view import Cluster, Contributor
from lbgen.plan.model import Endpoint, HostPattern, Listener, Plan, Pool
from lbgen.plan.tls import Certificate, File, ListenerTls

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# Envoy's own list lacks P-384, the last that Mozilla recommends.
_CURVES = ("X25519MLKEM768", "X25519", "P-256", "P-384")
# The system's store; Envoy's own option for it does not verify names.
_SYSTEM: dict[str, Data] = {"filename": "/etc/ssl/certs/ca-certificates.crt"}
_MATCH = "envoy.transport_socket_match"
_VERSIONS = {"1.2": "TLSv1_2", "1.3": "TLSv1_3"}


def _proxy_header(listener: Listener) -> dict[str, Data]:
    if not listener.proxy_protocol:
        return {}
    kind = "filters.listener.proxy_protocol.v3.ProxyProtocol"
    return {"listener_filters": [extension("envoy.filters.listener.proxy_protocol", kind)]}


def _inspector(listener: Listener) -> dict[str, Data]:
    """The listener filter that reads the server name from the first bytes of a connection."""
    if listener.tls is None:
        return {}
    kind = "filters.listener.tls_inspector.v3.TlsInspector"
    return {"listener_filters": [extension("envoy.filters.listener.tls_inspector", kind)]}


def build_listener_socket(tls: ListenerTls, protocols: list[str]) -> dict[str, Data]:
    """The transport socket for TLS; it offers `protocols` by ALPN."""
    params: dict[str, Data] = {
        "tls_minimum_protocol_version": _VERSIONS[tls.min_version],
        "tls_maximum_protocol_version": "TLSv1_3",
        "ecdh_curves": list(tls.curves or _CURVES),
    }
    if tls.ciphers:
        params["cipher_suites"] = list(tls.ciphers)
    common: dict[str, Data] = {
        "tls_params": params,
    }
    if uses_secrets(tls):
        common["tls_certificate_sds_secret_configs"] = [
            {"name": secret_name(each), "sds_config": watch(secret_file(each))}
            for each in select_certificates(tls.certificates)
        ]
    else:
        common["tls_certificates"] = [_pair(each) for each in select_certificates(tls.certificates)]
    if protocols:
        common["alpn_protocols"] = list(protocols)
    context: dict[str, Data] = {"common_tls_context": common}
    if tls.client_ca is not None:
        common["validation_context"] = {"trusted_ca": _file(tls.client_ca)}
        context["require_client_certificate"] = tls.client_required
        # A resumed session shows no certificate.
        context["disable_stateless_session_resumption"] = True
        context["disable_stateful_session_resumption"] = True
    return extension("envoy.transport_sockets.tls", "transport_sockets.tls.v3.DownstreamTlsContext", context)


def uses_secrets(tls: ListenerTls) -> bool:
    """Whether Envoy gets the certificates by SDS: it then loads them again when they are replaced by a rename."""
    return any(each.cert.issued for each in tls.certificates)


def secret_name(certificate: Certificate) -> str:
    """The name of a certificate as a secret."""
    return certificate.cert.path


def secret_file(certificate: Certificate) -> str:
    """The file of a certificate as a secret."""
    return f"secrets/{PurePosixPath(certificate.cert.path).name}.yaml"


def build_secrets(plan: Plan) -> dict[str, dict[str, Data]]:
    """The secrets of listeners by the file of each."""
    found: dict[str, dict[str, Data]] = {}
    for listener in plan.listeners:
        if listener.tls is not None and uses_secrets(listener.tls):
            for each in select_certificates(listener.tls.certificates):
                secret: dict[str, Data] = {"name": secret_name(each), "tls_certificate": _pair(each)}
                kind = "envoy.extensions.transport_sockets.tls.v3.Secret"
                found[secret_file(each)] = Tagged(each.field, typed(kind, secret))
    return found


def select_certificates(certificates: tuple[Certificate, ...]) -> list[Certificate]:
    """The certificates that hold a name which no earlier one holds; the first also serves clients without a name."""
    found: list[Certificate] = []
    seen: set[HostPattern] = set()
    for each in certificates:
        if not found or not seen.issuperset(each.names):
            found.append(each)
        seen.update(each.names)
    return found


def build_names_pattern(tls: ListenerTls) -> str:
    """A regex for the server names in the certificates; a wildcard covers one label."""
    names = dict.fromkeys(name for each in tls.certificates for name in each.names)
    return "|".join(("[^.]+[.]" if name.wildcard else "") + escape_regex(name.name) for name in names)


def _cluster(cluster: Cluster) -> dict[str, Data]:
    """The fields for its connections; empty for plain TCP."""
    pool = cluster.pool
    if pool.tls is None:
        return {} if pool.proxy_protocol is None else {"transport_socket": _proxy_protocol(pool, _raw())}
    if pool.tls.server_name is not None or not pool.tls.verify:
        return {"transport_socket": _proxy_protocol(pool, _upstream_tls(pool, pool.tls.server_name))}
    # Each endpoint's certificate must hold its own host.
    hosts = tuple(dict.fromkeys((endpoint.host, endpoint.is_ip) for endpoint in pool.endpoints))
    if len(hosts) == 1:
        return {"transport_socket": _proxy_protocol(pool, _upstream_tls(pool, *hosts[0]))}
    return {
        "transport_socket_matches": [
            {
                "name": host,
                "match": {"host": host},
                "transport_socket": _proxy_protocol(pool, _upstream_tls(pool, host, is_ip)),
            }
            for host, is_ip in hosts
        ]
    }


def _has_socket_per_endpoint(pool: Pool) -> bool:
    tls = pool.tls
    shared = tls is None or tls.server_name is not None or not tls.verify
    return not shared and len({endpoint.host for endpoint in pool.endpoints}) > 1


def _endpoint(endpoint: Endpoint, pool: Pool) -> dict[str, Data]:
    """The metadata by which Envoy picks the socket."""
    if not _has_socket_per_endpoint(pool):
        return {}
    return {"metadata": {"filter_metadata": {_MATCH: {"host": endpoint.host}}}}


def _pair(pair: Certificate) -> dict[str, Data]:
    """A certificate chain and its key."""
    return {"certificate_chain": _file(pair.cert), "private_key": _file(pair.key)}


def _file(file: File) -> dict[str, Data]:
    """A file, relative to Envoy's folder or absolute."""
    return {"filename": file.path}


def _raw() -> dict[str, Data]:
    return extension("envoy.transport_sockets.raw_buffer", "transport_sockets.raw_buffer.v3.RawBuffer")


def _proxy_protocol(pool: Pool, inner: dict[str, Data]) -> dict[str, Data]:
    if pool.proxy_protocol is None:
        return inner
    return extension(
        "envoy.transport_sockets.upstream_proxy_protocol",
        "transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        {"config": {"version": pool.proxy_protocol.upper()}, "transport_socket": inner},
    )


def _upstream_tls(pool: Pool, name: str | None, is_ip: bool = False) -> dict[str, Data]:
    tls = pool.tls
    if tls is None:
        raise ValueError(f"{pool.field}: no TLS is asked for")
    common: dict[str, Data] = {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"}
    }
    if tls.certificate is not None:
        common["tls_certificates"] = [_pair(tls.certificate)]
    if tls.verify:
        trusted: dict[str, Data] = {"trusted_ca": _SYSTEM if tls.ca is None else _file(tls.ca)}
        held: Data = {"san_type": "IP_ADDRESS" if is_ip else "DNS", "matcher": {"exact": name}}
        common["validation_context"] = {**trusted, "match_typed_subject_alt_names": [held]}
    if pool.protocol.value != "http1":
        common["alpn_protocols"] = ["h2"]
    context: dict[str, Data] = {"common_tls_context": common}
    if name is not None and not is_ip:
        context["sni"] = name
    return extension("envoy.transport_sockets.tls", "transport_sockets.tls.v3.UpstreamTlsContext", context)


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.tls is None or len(select_certificates(listener.tls.certificates)) < 2:
            continue
        note = "a server name with capital letters, which no browser sends, gets the first certificate"
        capitals = {"listener.tls.capitals": "tls names"}
        yield Objection(habit(note, capitals), f"{listener.field}.tls.certificates", "listener.tls")
        note = "a client without a server name gets the first ECDSA certificate that it can use, before any RSA one"
        shows = {"listener.tls.no_sni.kinds": ("tls names", "tls certificate")}
        yield Objection(habit(note, shows), f"{listener.field}.tls", "listener.tls.no_sni")


PROXY_PROTOCOL = Contributor(listener=_proxy_header)
TLS = Contributor(listener=_inspector, cluster=_cluster, endpoint=_endpoint, objections=_objections)
