"""The shortest configuration of each engine that forwards everything: what lbgen's own is compared with.

`clear` speaks HTTP/2 with prior knowledge (nginx before 1.25: nothing else), `secure` speaks TLS with ALPN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from msgspec.structs import replace

from lbgen.engines.api import RenderedFile
from lbgen.engines.rendered import Rendered
from lbgen.plan.resolve import plan as resolve
from lbgen.spec.load import load

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.plan.model import Plan

CERT, KEY = "tls/shop.crt", "tls/shop.crt.key"


def topology(*, endpoint: int, folder: Path, clear: int = 0, secure: int = 0, plain: int = 0) -> Plan:
    """The same for lbgen; `folder` holds shop.crt and shop.key. A port of 0 = no such listener; `plain` is HTTP/1.1."""
    pair = {"cert": "shop.crt", "key": "shop.key", "names": ["shop.example", "localhost"]}
    listeners = {
        "clear": {"port": clear, "http2": True},
        "secure": {"port": secure, "tls": {"certificates": [pair]}},
        "plain": {"port": plain},
    }
    data = {
        "version": 1,
        "name": "minimal",
        "profile": "minimal",
        "listeners": {name: listener for name, listener in listeners.items() if listener["port"]},
        "pools": {"p": {"endpoints": [{"address": f"127.0.0.1:{endpoint}"}]}},
        "routes": [{"name": "all", "forward": "p"}],
    }
    return resolve(replace(load(data), base=folder))


def rendered(engine: str, version: str, plan: Plan, *, streams: bool = False) -> Rendered:
    """The engine's own configuration for the listeners and the endpoint of `topology`, on their ports. `streams`: nginx
    passes bodies on as they come, as the others do."""
    ports = {listener.name: listener.port for listener in plan.listeners}
    files = _WRITERS[engine](version, ports, plan.pools[0].endpoints[0].port, plan.admin_port)
    if streams:
        flow = "proxy_http_version 1.1; proxy_request_buffering off; proxy_pass"
        files = {name: text.replace("proxy_pass", flow) for name, text in files.items()}
    return Rendered(engine, version, tuple(RenderedFile(n, t) for n, t in files.items()), copies=plan.files)


def _nginx(version, ports, endpoint, admin):
    old = version == "1.22"
    servers = ""
    for name, port in ports.items():
        words = " ssl" if name == "secure" else ""
        tls = f"ssl_certificate {CERT}; ssl_certificate_key {KEY};" if name == "secure" else ""
        http2, more = (" http2", "") if old else ("", "http2 on;")
        listen = f"listen 127.0.0.1:{port}{words}{http2}; {more} {tls}"
        servers += f"server {{ {listen} location / {{ proxy_pass http://127.0.0.1:{endpoint}; }} }}\n"
    temp = " ".join(f"{kind}_temp_path temp;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = f"pid nginx.pid; error_log error.log; events {{}} http {{ access_log off; {temp} {servers} }}\n"
    return {"nginx.conf": text, "temp.txt": ""}


def _haproxy(version, ports, endpoint, admin):
    lines = [
        "defaults",
        " mode http",
        " timeout client 10s",
        " timeout server 10s",
        " timeout connect 2s",
        "frontend all",
    ]
    for name, port in ports.items():
        lines.append(f" bind 127.0.0.1:{port} " + (f"ssl crt {CERT} alpn h2,http/1.1" if name == "secure" else ""))
    lines += [" default_backend b", "backend b", f" server s 127.0.0.1:{endpoint}", ""]
    return {"haproxy.cfg": "\n".join(lines)}


def _envoy(version, ports, endpoint, admin):
    kind = "type.googleapis.com/envoy.extensions"
    manager = {
        "@type": f"{kind}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "s",
        "codec_type": "AUTO",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "route_config": {
            "virtual_hosts": [
                {"name": "v", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}]}
            ]
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{kind}.filters.http.router.v3.Router"},
            }
        ],
    }
    listeners = []
    for name, port in ports.items():
        chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        if name == "secure":
            pair = {"certificate_chain": {"filename": CERT}, "private_key": {"filename": KEY}}
            context = {"tls_certificates": [pair], "alpn_protocols": ["h2", "http/1.1"]}
            chain["transport_socket"] = {
                "name": "envoy.transport_sockets.tls",
                "typed_config": {
                    "@type": f"{kind}.transport_sockets.tls.v3.DownstreamTlsContext",
                    "common_tls_context": context,
                },
            }
        listeners.append({"name": name, "address": _address(port), "filter_chains": [chain]})
    place = {"endpoint": {"address": _address(endpoint)}}
    cluster = {
        "name": "c",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [place]}]},
    }
    return {"envoy.yaml": yaml.safe_dump({"static_resources": {"listeners": listeners, "clusters": [cluster]}})}


def _address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _traefik(version, ports, endpoint, admin):
    static = {
        "entryPoints": {name: {"address": f"127.0.0.1:{port}"} for name, port in ports.items()}
        | {"traefik": {"address": f"127.0.0.1:{admin}"}},
        "api": {"insecure": True},
        "providers": {"file": {"filename": "dynamic.yaml"}},
    }
    routers = {
        name: {"rule": "PathPrefix(`/`)", "service": "s", "entryPoints": [name]}
        | ({"tls": {}} if name == "secure" else {})
        for name in ports
    }
    dynamic = {
        "http": {
            "routers": routers,
            "services": {"s": {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{endpoint}"}]}}},
        },
        "tls": {"stores": {"default": {"defaultCertificate": {"certFile": CERT, "keyFile": KEY}}}},
    }
    return {"traefik.yaml": yaml.safe_dump(static), "dynamic.yaml": yaml.safe_dump(dynamic)}


_WRITERS = {"nginx": _nginx, "haproxy": _haproxy, "envoy": _envoy, "traefik": _traefik}
ENGINES = tuple(_WRITERS)
