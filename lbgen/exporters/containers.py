"""What containers of an engine have in common, whoever starts them: image, command, health check.

The rendered files are mounted read-only; the engine runs in a folder in memory, where a shell puts them first, with a
link that sends its access log to the container's output.
"""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import Struct

from lbgen.engines.agent_spec import FILE as AGENT_FILE
from lbgen.engines.api import RenderedFile
from lbgen.engines.metrics_spec import FILE as METRICS_FILE
from lbgen.exporters.parts import CONFIG, LOAD, Part, load_script
from lbgen.plan.model import Mode, Plan, Protocol
from lbgen.runtime.common.route_probes import make_probes
from lbgen.runtime.docker.desired import hot_restart_script
from lbgen.runtime.docker.helper_image import USER
from lbgen.runtime.docker.images import environment_variable
from lbgen.version import VERSION

WORK = "/run/lbgen"  # the engine's working folder, in memory
AGENT_IMAGE, AGENT_VARIABLE = f"lbgen:{VERSION}", "LBGEN_IMAGE"  # of the Dockerfile of lbgen's repository
GRACE_SECONDS = 30  # for open connections, once an engine was told to stop
DRAIN_SECONDS = 20  # for the requests of an engine that ends at once, before that
PRIVILEGED = 1024  # the first port that needs no privilege
LOW_PORTS = "net.ipv4.ip_unprivileged_port_start"
START, HEALTHY = "start.sh", "healthy.sh"  # beside the rendered files
_ABOUT = "Run by /bin/sh in the engine's container."
_LOAD = f"sh {CONFIG}/{LOAD}"
_ANYONE = "192.0.2.1"  # of RFC 5737: a client that no topology names
_OK = range(200, 400)
_PROBE_SECONDS = 2


class HealthCheck(Struct, frozen=True):
    """How to see that an engine serves: GET `path` for `host` at `port` answers 2xx or 3xx, or ("" = no path) the port
    accepts a connection."""

    port: int
    path: str = ""
    host: str = ""
    tls: bool = False


def health_check(plan: Plan) -> HealthCheck | None:
    """A route that the engine answers by itself, so that an endpoint that is down takes no replica out, else a port.
    None without a TCP listener."""
    for probe in sorted(make_probes(plan, _ANYONE), key=lambda x: x.status or 0):  # an answer before a redirect
        listener, request = plan.listener(probe.listener), probe.request
        if request is None or probe.status not in _OK or probe.others or listener.proxy_protocol:
            continue
        names = {name.lower(): value for name, value in request.headers}
        plain = names.keys() <= {"host"} and request.method == "GET" and request.target.startswith("/")
        if plain and all(c not in request.target + names.get("host", "") for c in "'\"\\ $`"):
            return HealthCheck(listener.port, request.target, names.get("host", ""), listener.terminates_tls)
    tcp = [x for x in plan.listeners if x.protocol is Protocol.TCP]
    tcp.sort(key=lambda x: x.mode is Mode.L4)
    return HealthCheck(tcp[0].port) if tcp else None


def scripts(part: Part, *, hot: bool = False, lingers: int = 0) -> tuple[RenderedFile, ...]:
    """start.sh, which puts the files into the working folder and becomes the engine; healthy.sh, which ends with 0
    while it serves. `hot`: for files that change while it runs: also load.sh, and where the engine can do that, a
    start.sh that starts another process beside it on SIGHUP. `lingers`: one that passes the signal to end on after so
    many seconds, in which those in front find out and the engine drains."""
    spec, check = part.spec, health_check(part.plan)
    load = (load_script(part, CONFIG, WORK, "/dev/stdout"),) if hot else ()
    argv = f"exec {shlex.join(spec.argv)}\n"
    if hot and spec.hot_restart_argv:
        argv = hot_restart_script(spec.hot_restart_argv)
    elif lingers:
        signal = spec.stop.name.removeprefix("SIG")
        ask = f"  bash -c {shlex.quote(drain_script(part))}\n" if spec.drain_path else ""
        end = f"end() {{\n{ask}  sleep {lingers}\n  kill -{signal} $!\n}}\n"
        argv = f"{end}trap end {signal}\n{shlex.join(spec.argv)} &\nwait $!\nwait $!\n"
    log = f"ln -sf /dev/stdout {spec.access_log}\n" if spec.access_log else ""
    copy = f"{_LOAD}\n" if hot else f"cp -RLf {CONFIG}/* .\n{log}"
    start = RenderedFile(START, f"# {_ABOUT}\nset -e\n{copy}set +e\n{argv}")
    healthy = () if check is None else (RenderedFile(HEALTHY, f"# {_ABOUT}\n{_probe(check)}\n"),)
    return (start, *healthy, *load)


def _probe(check: HealthCheck) -> str:
    """A shell's check, by bash, or by BusyBox."""
    at = f"127.0.0.1/{check.port}"
    if not check.path or check.tls:
        bash, other = f"exec 3<>/dev/tcp/{at}", f"nc -z -w {_PROBE_SECONDS} 127.0.0.1 {check.port}"
    else:
        asked = rf"GET {check.path} HTTP/1.1\r\nHost: {check.host}\r\nConnection: close\r\n\r\n".replace("%", "%%")
        bash = f'exec 3<>/dev/tcp/{at}; printf "{asked}" >&3; read -r _ status _ <&3; [[ $status == [23]?? ]]'
        url = f"http://127.0.0.1:{check.port}{check.path}"
        other = f'wget -q -T {_PROBE_SECONDS} -O /dev/null --header "Host: {check.host}" "{url}"'
    return f"if command -v bash >/dev/null; then\n  exec bash -c '{bash}'\nfi\nexec {other}"


def drain_script(part: Part) -> str:
    """What bash runs to have the engine end connections with their next answers."""
    asked = rf"POST {part.spec.drain_path} HTTP/1.1\r\nHost: lbgen\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    return f"exec 3<>/dev/tcp/127.0.0.1/{part.plan.admin_port}; printf '{asked}' >&3"


def reload_script(signal: str) -> str:
    """What a shell runs in the working folder once the mounted files are others."""
    return f"{_LOAD} && kill -{signal} 1" if signal else _LOAD


def agent_script(part: Part) -> str:
    """What a shell runs beside the engine, in the same folder: lbgen's agent, once its files are there."""
    file = AGENT_FILE if AGENT_FILE in part.rendered else METRICS_FILE
    return f"until [ -e {file} ]; do sleep 0.2; done; exec lbgen agent {WORK}"


def image(part: Part) -> str:
    """The official image, pinned; one of `lbgen images build` for an engine without one."""
    return part.engine.images.official.get(part.version) or f"lbgen/{part.engine.name}:{part.version}"


def image_variable(part: Part) -> str:
    """The image for files in which variables are replaced."""
    return f"${{{environment_variable(part.engine.name)}:-{image(part)}}}"


def has_low_port(plan: Plan) -> bool:
    """Whether a listener's port is one that needs a privilege elsewhere."""
    return any(x.port < PRIVILEGED for x in plan.listeners)


def compose_service(part: Part) -> dict[str, Any]:
    """The keys of a service that compose and swarms share."""
    service: dict[str, Any] = {
        "image": image_variable(part),
        "entrypoint": ["/bin/sh", f"{CONFIG}/{START}"],
        "working_dir": WORK,
        "user": f"{USER}:{USER}",
        "read_only": True,
        "cap_drop": ["ALL"],
        "stop_signal": part.spec.stop.name,
        "stop_grace_period": f"{GRACE_SECONDS}s",
    }
    if part.spec.env:
        service["environment"] = dict(part.spec.env)
    if has_low_port(part.plan):
        service["sysctls"] = {LOW_PORTS: "0"}
    if health_check(part.plan) is not None:
        service["healthcheck"] = {
            "test": ["CMD", "/bin/sh", f"{CONFIG}/{HEALTHY}"],
            "interval": "2s",
            "timeout": "2s",
            "retries": 3,
            "start_period": "30s",
        }
    return service
