"""A Kubernetes cluster of several nodes on this machine: the control plane and CoreDNS in this process's network, each
node (containerd, kubelet, kube-proxy) in namespaces of its own behind a bridge.

It needs root, containerd, runc, the plugins of containernetworking-plugins, conntrack and nft. The pods' network does
not enforce NetworkPolicies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from lbgen.runtime.local import network
from tests.kubernetes.control_plane import (
    PROGRAMS,
    SERVICES,
    WHY_NONE,
    ControlPlane,
    api_server,
    arguments,
    start,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kubernetes.control_plane import Kubectl

HOST = "10.78.0.1"  # this process's address on the bridge
DNS = f"{SERVICES}.10"
PAUSE = "docker.io/lbgen/pause:1"
AWAY_SECONDS = 8  # without a word of a node, until its pods are taken out
_PODS = "10.244"
_BRIDGE = "lbgen-kube"
_PLUGINS = next((x for x in (Path("/opt/cni/bin"), Path("/usr/lib/cni")) if (x / "bridge").exists()), None)
_PROGRAMS = ("containerd", "ctr", "runc", "conntrack", "nft", "ip", "unshare")
_SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")  # which kubelet sets
_READY_SECONDS = 60


def why_none() -> str:
    """Why no cluster can run on this machine, "" where one can."""
    lacking = [name for name in _PROGRAMS if shutil.which(name) is None]
    if _PLUGINS is None:
        lacking.append("containernetworking-plugins")
    if WHY_NONE or network.why_unavailable():
        return WHY_NONE or network.why_unavailable()
    return f"not installed: {', '.join(lacking)}" if lacking else ""


@dataclass(frozen=True)
class Node:
    """A node; `device` is its end of the cable at the bridge."""

    name: str
    address: str
    device: str
    folder: Path
    process: subprocess.Popen[bytes]

    def cable(self, state: str) -> None:
        """Cut it off (`down`) or connect it again (`up`)."""
        network.ip(f"link set {self.device} {state}")


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs."""

    kubectl: Kubectl
    nodes: tuple[Node, ...]

    @contextmanager
    def surrounded(self) -> Iterator[None]:
        """Every address that is not the cluster's is this process's, for clients and endpoints of any."""
        routes = [f"10.78.0.0/24 dev {_BRIDGE} table local"]
        routes += [f"{_PODS}.{n}.0/24 via {x.address} table local" for n, x in enumerate(self.nodes, 1)]
        routes.append("local 0.0.0.0/0 dev lo table local")
        network.ip(*(f"route add {route}" for route in routes))
        try:
            yield
        finally:
            network.ip(*(f"route delete {route}" for route in reversed(routes)))


@contextmanager
def cluster(folder: Path, images: Path, count: int = 2) -> Iterator[Cluster]:
    """Run a cluster whose nodes have the images of a folder. This process enters a network of its own, for good."""
    kept = {name: Path("/proc/sys", name).read_text(encoding="utf-8") for name in _SYSCTLS}
    network.enter()
    network.ip(
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"address add {HOST}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    )
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    (folder / "images").symlink_to(images)
    with ExitStack() as stack:
        stack.callback(_restore, kept)
        plane = stack.enter_context(api_server(folder, HOST))
        _controllers(stack, plane)
        _names(stack, plane)
        nodes = tuple(_node(stack, plane, number + 1, count) for number in range(count))
        _wait_for(plane.kubectl, nodes)
        yield Cluster(plane.kubectl, nodes)


def _cgroup(node: str) -> str:
    """Of a node, apart from those of another cluster on this machine."""
    return f"lbgen-{os.getpid()}-{node}"


def _restore(kept: dict[str, str]) -> None:
    for name, value in kept.items():
        with suppress(OSError):
            Path("/proc/sys", name).write_text(value, encoding="utf-8")
    for controller in Path("/sys/fs/cgroup").iterdir():
        for top in controller.glob(f"{_cgroup('')}*"):
            for here, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(here).rmdir()


def _controllers(stack: ExitStack, plane: ControlPlane) -> None:
    folder, authority = plane.folder, plane.authority
    manager = {
        "kubeconfig": authority.config("controllers", "system:kube-controller-manager"),
        "bind-address": "127.0.0.1",
        "service-account-private-key-file": folder / "accounts.key",
        "root-ca-file": authority.file,
        "use-service-account-credentials": "true",
        "node-monitor-period": "1s",
        "node-monitor-grace-period": f"{AWAY_SECONDS}s",
        "leader-elect": "false",
    }
    start(stack, folder / "controllers.log", "kube-controller-manager", *arguments(manager))
    scheduler = {
        "kubeconfig": authority.config("scheduler", "system:kube-scheduler"),
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
    }
    start(stack, folder / "scheduler.log", "kube-scheduler", *arguments(scheduler))
    role = ("create", "clusterrolebinding", "proxy", "--clusterrole", "system:node-proxier")
    plane.kubectl.run(*role, "--user", "system:kube-proxy")


def _names(stack: ExitStack, plane: ControlPlane) -> None:
    """CoreDNS beside the control plane, and the Service by which pods ask it."""
    config = plane.authority.config("dns", "dns", "system:masters")
    corefile = plane.folder / "Corefile"
    corefile.write_text(
        f".:53 {{\n  errors\n  kubernetes cluster.local {{\n    kubeconfig {config} tests\n    ttl 5\n  }}\n}}\n",
        encoding="utf-8",
    )
    start(stack, plane.folder / "dns.log", "coredns", "-conf", str(corefile))
    ports = [{"name": name.lower(), "port": 53, "protocol": name} for name in ("UDP", "TCP")]
    meta = {"name": "kube-dns", "namespace": "kube-system"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": DNS, "ports": ports}}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": meta | {"labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [HOST]}],
        "ports": ports,
    }
    plane.kubectl.run("create", "--filename", "-", given=yaml.safe_dump_all([service, endpoints]))


def _node(stack: ExitStack, plane: ControlPlane, number: int, count: int) -> Node:
    name, address = f"n{number}", f"10.78.0.{10 + number}"
    folder, device = plane.folder / name, f"lbgen-{name}"
    for below in ("kubelet", "cni", "net.d", "logs"):
        (folder / below).mkdir(parents=True)
    for path in ("/var/lib/kubelet", "/var/lib/cni"):
        Path(path).mkdir(parents=True, exist_ok=True)
    config = plane.authority.config(f"{name}-kubelet", f"system:node:{name}", "system:nodes")
    shutil.copy(config, folder / "kubelet.conf")
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="ascii")
    _write(folder / "kubelet.yaml", _kubelet(plane, name, address, folder))
    _write(folder / "proxy.yaml", _proxy(plane, name))
    _write(folder / "net.d/10-bridge.conflist", _pod_network(number, folder))
    (folder / "containerd.toml").write_text(_containerd(folder), encoding="utf-8")
    apart = ("unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
    script = str(Path(__file__).parent / "node.sh")
    log = folder / "node.log"
    process = start(stack, log, "bash", script, name, str(folder), str(PROGRAMS), _cgroup(name), prefix=apart)
    stack.callback(stop, process, signal.SIGKILL)
    while Path(f"/proc/{process.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        time.sleep(0.01)
    network.ip(f"link add {device} type veth peer name eth0 netns {process.pid}")
    network.ip(f"link set {device} master {_BRIDGE} up", f"route add {_PODS}.{number}.0/24 via {address}")
    enter = ("nsenter", f"--net=/proc/{process.pid}/ns/net", "ip")
    others = (n for n in range(1, count + 1) if n != number)
    for words in (
        "link set lo up",
        "link set eth0 up",
        f"address add {address}/24 dev eth0",
        f"route add default via {HOST}",
        *(f"route add {_PODS}.{n}.0/24 via 10.78.0.{10 + n}" for n in others),
    ):
        subprocess.run((*enter, *words.split()), check=True)
    return Node(name, address, device, folder, process)


def _wait_for(kubectl: Kubectl, nodes: tuple[Node, ...]) -> None:
    end = time.monotonic() + _READY_SECONDS
    for node in nodes:
        while kubectl.run("get", "node", node.name, check=False).returncode:
            alive = node.process.poll() is None and time.monotonic() < end
            assert alive, (node.folder / "node.log").read_text(encoding="utf-8")
            time.sleep(0.2)
    kubectl.run("wait", "--for", "condition=Ready", "--timeout", f"{_READY_SECONDS}s", "node", "--all")


def _write(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")  # YAML to those that read YAML


def _kubelet(plane: ControlPlane, name: str, address: str, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{_cgroup(name)}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "address": address,
        "healthzBindAddress": "127.0.0.1",
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.file)},
        },
        "authorization": {"mode": "Webhook"},
        "nodeStatusUpdateFrequency": "2s",
        "maxPods": 40,
        "podLogsDir": f"{folder}/logs",
    }


def _proxy(plane: ControlPlane, name: str) -> dict[str, object]:
    config = plane.authority.config(f"{name}-proxy", "system:kube-proxy")
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": name,
        "clientConnection": {"kubeconfig": str(config)},
        "clusterCIDR": f"{_PODS}.0.0/16",
        "conntrack": {"maxPerCore": 0, "min": 0},
        "nftables": {"minSyncPeriod": "100ms"},
    }


def _pod_network(number: int, folder: Path) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "dataDir": f"{folder}/cni/addresses",
        "ranges": [[{"subnet": f"{_PODS}.{number}.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "bridge", "plugins": [bridge, ports]}


def _containerd(folder: Path) -> str:
    unused = ", ".join(f'"io.containerd.snapshotter.v1.{x}"' for x in ("devmapper", "btrfs", "zfs", "aufs"))
    return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/run"
disabled_plugins = [{unused}, "io.containerd.internal.v1.opt"]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE none may be lower than ours
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_PLUGINS}"
    conf_dir = "{folder}/net.d"
"""
