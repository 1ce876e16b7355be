"""What the drills run in a cluster: endpoints and load balancers by `lbgen export`."""

from __future__ import annotations

import io
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import lbgen
from lbgen.engines.api import engine
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime.common.driver import no_progress
from lbgen.runtime.docker.client import connect
from lbgen.runtime.docker.images import choose
from lbgen.runtime.local.process import run_engine
from tests.kubernetes.cluster import PAUSE
from tests.kubernetes.control_plane import PROGRAMS, ROOT
from tests.support.drills import log_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kubernetes.control_plane import Kubectl

NAMESPACE = "drills"
ENDPOINTS = """\
version: 1
name: app
listeners: { web: { port: 8080 } }
routes: [{ name: all, respond: { status: 200, body: '{"pool": "app"}', headers: { content-type: application/json } } }]
"""
APP = f"app-headless.{NAMESPACE}.svc.cluster.local:8080"
# What keeps requests from being lost as an endpoint, or its node, goes without a word.
_PATIENT = {
    "retries": {"max": 2, "on": ["connect_failure", "reset", "timeout"]},
    "timeouts": {"connect": "300ms", "response": "800ms", "idle": "800ms"},
}
_CHECKS = {"active": {"interval": "500ms", "timeout": "300ms", "fall": 2, "rise": 1}}
_ROLLOUT = "180s"


def shop(engine: str, dns: str) -> dict[str, Any]:
    """The shop with a storefront in the cluster."""
    topology = _example("shop")
    topology["pools"]["storefront"] = {"endpoints": [{"address": APP}]}
    if engine == "nginx":  # which has active checks by its agent alone, and needs the address of the DNS
        topology["resolvers"] = [dns]
        topology["pools"]["storefront"]["health"] = {"passive": {"failures": 1, "eject_for": "10s"}}
    else:
        topology["pools"]["storefront"]["health"] = _CHECKS
    route = next(each for each in topology["routes"] if each["name"] == "storefront")
    return topology | {"routes": [x | _PATIENT if x is route else x for x in topology["routes"]]}


def hybrid(engine: str, dns: str) -> dict[str, Any]:
    """The hybrid edge with that engine behind HAProxy, and services in the cluster."""
    topology = _example("hybrid-edge")
    topology["tiers"]["web"] = {"engine": engine, "replicas": 3}
    topology.pop("accept")
    for name in ("shop", "api"):
        topology["pools"][name]["endpoints"] = [{"address": APP}]
    if engine == "nginx":
        topology["resolvers"] = [dns]
    routes = [x | _PATIENT if x["name"] in ("api", "shop") else x for x in topology["routes"]]
    return topology | {"routes": routes}


TOPOLOGIES: dict[str, Callable[[str, str], dict[str, Any]]] = {"shop": shop, "hybrid": hybrid}


def _example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "examples" / name / "topology.yaml").read_text(encoding="utf-8"))
    return found


FRONT = """\
version: 1
name: front
listeners: {{ web: {{ port: {port}, address: 127.0.0.1 }} }}
pools:
  nodes:
    endpoints: {endpoints}
    health: {{ active: {{ interval: 300ms, timeout: 200ms, fall: 2, rise: 1 }} }}
routes:
  - name: all
    forward: nodes
    retries: {{ max: 2, on: [connect_failure, reset, timeout] }}
    timeouts: {{ connect: 300ms, response: 2s, idle: 2s }}
"""


@contextmanager
def front(nodes: list[str], folder: Path, port: int = 18_080) -> Iterator[tuple[str, int]]:
    """A balancer before the cluster, which checks the nodes' ports and tries another one: HAProxy in this process's
    network. Returns its address."""
    file = folder / "front.yaml"
    endpoints = [{"address": each} for each in nodes]
    file.write_text(FRONT.format(port=port, endpoints=endpoints), encoding="utf-8")
    with run_engine("haproxy", resolve(lbgen.load(str(file)))) as engine:
        yield "127.0.0.1", port
        log_failures("front", engine.access_lines())


@dataclass
class Deployed:
    """A topology in the cluster, and the folder that its exports are written to."""

    kubectl: Kubectl
    folder: Path
    engine: str
    names: tuple[str, ...] = ()

    def apply(
        self, topology: dict[str, Any] | str, *, wait: bool = True, replicas: dict[str, int] | None = None
    ) -> None:
        """Export a topology and apply it as the folder's README says."""
        text = topology if isinstance(topology, str) else yaml.safe_dump(topology, sort_keys=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "topology.yaml"
        file.write_text(text, encoding="utf-8")
        found = lbgen.export(
            lbgen.load(str(file)),
            "kubernetes",
            engine=self.engine,
            accept=("all",),
            namespace=NAMESPACE,
            replicas=replicas,
        )
        found.write(self.folder / "export")
        self.kubectl.run("apply", "--server-side", "--force-conflicts", "--kustomize", str(self.folder / "export"))
        objects = (
            each for name, text in found.files.items() if name.endswith(".yaml") for each in yaml.safe_load_all(text)
        )
        self.names = tuple(each["metadata"]["name"] for each in objects if each["kind"] == "Deployment")
        if wait:
            self.wait()

    def wait(self, seconds: str = _ROLLOUT, *, check: bool = True) -> list[str]:
        """The Deployments that do not get to have pods of the newest version alone, all ready."""
        words = ("rollout", "status", "--namespace", NAMESPACE, "--timeout", seconds)
        ask = self.kubectl.run
        return [x for x in self.names if ask(*words, f"deployment/{x}", seconds=240, check=check).returncode]

    def delete(self) -> None:
        self.kubectl.run("delete", "--kustomize", str(self.folder / "export"), "--wait=false")


def images(folder: Path, engines: tuple[str, ...]) -> Path:
    """A folder with archives of the engines' images by official names, built from this host's executables where no
    registry answers, and of the pause image."""
    client = connect()
    client.api.import_image_from_data(_pause(), PAUSE.rpartition(":")[0], "1", changes=['ENTRYPOINT ["/pause"]'])
    wanted, lent = [PAUSE], []  # names that images have here for a moment
    for target in map(engine, engines):
        official = target.images.official[target.versions[0]]
        chosen = choose(client, target, target.versions[0], no_progress).reference
        if chosen != official:
            client.images.get(chosen).tag(official)
            lent.append(official)
        wanted.append(official)
    for number, name in enumerate(wanted):
        with (folder / f"{number}.tar").open("wb") as file:
            file.writelines(client.api.get_image(name))
    for name in lent:
        client.images.remove(name, noprune=True)
    return folder


def _pause() -> bytes:
    """An archive with the pause program alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(PROGRAMS / "pause", "pause")
    return buffer.getvalue()
