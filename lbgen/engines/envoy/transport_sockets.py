"""TLS and PROXY headers to endpoints: Envoy's transport sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Pool
    from lbgen.plan.tls import Certificate, File

# The system's store; Envoy's own option for it does not verify names.
_SYSTEM: dict[str, Data] = {"filename": "/etc/ssl/certs/ca-certificates.crt"}
_MATCH = "envoy.transport_socket_match"


def build_pool_socket(pool: Pool) -> dict[str, Data]:
    """The fields of a cluster for its connections; empty for plain TCP."""
    if pool.tls is None:
        return {} if pool.proxy_protocol is None else {"transport_socket": _proxy_protocol(pool, _raw())}
    if pool.tls.server_name is not None or not pool.tls.verify:
        return {"transport_socket": _proxy_protocol(pool, _tls(pool, pool.tls.server_name))}
    # Each endpoint's certificate must hold its own host.
    hosts = tuple(dict.fromkeys((endpoint.host, endpoint.is_ip) for endpoint in pool.endpoints))
    if len(hosts) == 1:
        return {"transport_socket": _proxy_protocol(pool, _tls(pool, *hosts[0]))}
    return {
        "transport_socket_matches": [
            {"name": host, "match": {"host": host}, "transport_socket": _proxy_protocol(pool, _tls(pool, host, is_ip))}
            for host, is_ip in hosts
        ]
    }


def has_socket_per_endpoint(pool: Pool) -> bool:
    """Whether the endpoints of `pool` need different sockets."""
    tls = pool.tls
    shared = tls is None or tls.server_name is not None or not tls.verify
    return not shared and len({endpoint.host for endpoint in pool.endpoints}) > 1


def build_endpoint_metadata(endpoint: Endpoint) -> dict[str, Data]:
    """The metadata of an endpoint by which Envoy picks its socket."""
    return {"metadata": {"filter_metadata": {_MATCH: {"host": endpoint.host}}}}


def build_certificate(pair: Certificate) -> dict[str, Data]:
    """A certificate chain and its key."""
    return {"certificate_chain": build_data_source(pair.cert), "private_key": build_data_source(pair.key)}


def build_data_source(file: File) -> dict[str, Data]:
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


def _tls(pool: Pool, name: str | None, is_ip: bool = False) -> dict[str, Data]:
    tls = pool.tls
    if tls is None:
        raise ValueError(f"{pool.field}: no TLS is asked for")
    common: dict[str, Data] = {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"}
    }
    if tls.certificate is not None:
        common["tls_certificates"] = [build_certificate(tls.certificate)]
    if tls.verify:
        trusted: dict[str, Data] = {"trusted_ca": _SYSTEM if tls.ca is None else build_data_source(tls.ca)}
        held: Data = {"san_type": "IP_ADDRESS" if is_ip else "DNS", "matcher": {"exact": name}}
        common["validation_context"] = {**trusted, "match_typed_subject_alt_names": [held]}
    if pool.protocol.value != "http1":
        common["alpn_protocols"] = ["h2"]
    context: dict[str, Data] = {"common_tls_context": common}
    if name is not None and not is_ip:
        context["sni"] = name
    return extension("envoy.transport_sockets.tls", "transport_sockets.tls.v3.UpstreamTlsContext", context)
