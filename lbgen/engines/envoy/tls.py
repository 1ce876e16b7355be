"""TLS of listeners: the transport socket, and the server names that it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.matching import escape_regex
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.transport_sockets import build_certificate, build_data_source

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import HostPattern
    from lbgen.plan.tls import Certificate, ListenerTls

# Envoy's own list lacks P-384, the last that Mozilla recommends.
_CURVES = ("X25519MLKEM768", "X25519", "P-256", "P-384")
_VERSIONS = {"1.2": "TLSv1_2", "1.3": "TLSv1_3"}


def build_tls_inspector() -> dict[str, Data]:
    """The listener filter that reads the server name from the first bytes of a connection."""
    return extension("envoy.filters.listener.tls_inspector", "filters.listener.tls_inspector.v3.TlsInspector")


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
        "tls_certificates": [build_certificate(each) for each in select_certificates(tls.certificates)],
    }
    if protocols:
        common["alpn_protocols"] = list(protocols)
    context: dict[str, Data] = {"common_tls_context": common}
    if tls.client_ca is not None:
        common["validation_context"] = {"trusted_ca": build_data_source(tls.client_ca)}
        context["require_client_certificate"] = tls.client_required
        # A resumed session shows no certificate.
        context["disable_stateless_session_resumption"] = True
        context["disable_stateful_session_resumption"] = True
    return extension("envoy.transport_sockets.tls", "transport_sockets.tls.v3.DownstreamTlsContext", context)


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
