"""Drills in a real cluster: what clients lose while versions, nodes and endpoints change (`make kubernetes`).

Two nodes are started on this machine; with KUBECONFIG set, the drills run in that cluster instead, but for those that
cut a node off.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import lbgen
from lbgen.conformance.runner import CaseState
from lbgen.conformance.verify.cases import ScheduledCase
from lbgen.conformance.verify.faults import fault_cases
from lbgen.conformance.verify.jobs import Job
from lbgen.conformance.verify.requests import request_cases
from lbgen.conformance.verify.run import CLIENT
from lbgen.conformance.verify.time_scaling import choose_scale, scale_times
from lbgen.conformance.verify.worker import run_cases, stand_ins
from lbgen.diagnostics import LbgenError
from lbgen.engines.api import Binary
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.rendered import render_with
from lbgen.exporters import parts
from lbgen.plan.overlay import with_version
from lbgen.plan.resolve import plan as resolve
from lbgen.runtime import stacks
from lbgen.runtime.common.driver import no_progress
from lbgen.runtime.local.network import BUFFERS, SMALL_BUFFERS, small_buffers
from lbgen.runtime.standins.server import stand_in_servers
from tests.kubernetes.cluster import AWAY_SECONDS, Cluster, cluster, why_none
from tests.kubernetes.control_plane import PROGRAMS, ROOT, Kubectl
from tests.kubernetes.workload import ENDPOINTS, NAMESPACE, TOPOLOGIES, Deployed, front, images
from tests.support.drills import REFUSED, Counts, DrillTable, clients, log_failures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

OTHER = os.environ.get("KUBECONFIG", "")
# One cluster for all: workers side by side would start one each.
WHY_NOT = "of make kubernetes" if "PYTEST_XDIST_WORKER" in os.environ else "" if OTHER else why_none()
pytestmark = [
    pytest.mark.drill,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]
ENGINES = ("haproxy", "nginx", "envoy")
UPDATES = int(os.environ.get("LBGEN_UPDATES", "20"))
TABLE = DrillTable("kubernetes")


@dataclass
class Place:
    """Where the drills run; `cluster` where it is this machine's."""

    kubectl: Kubectl
    cluster: Cluster | None

    @property
    def dns(self) -> str:
        found: str = self.kubectl.get("service", "kube-dns", "--namespace", "kube-system")["spec"]["clusterIP"]
        return found

    def clients(self, service: str) -> AbstractContextManager[Counts]:
        """Clients of a Service, in the network of a node, which reaches all addresses of the cluster, or in this host's
        where the cluster is another one."""
        found = self.kubectl.get("service", service, "--namespace", NAMESPACE)
        port = int(found["spec"]["ports"][0]["port"])
        if self.cluster is not None:
            return clients((found["spec"]["clusterIP"], port), inside=self.cluster.nodes[0].process.pid)
        given = found["status"]["loadBalancer"].get("ingress", [])
        if not given:
            pytest.skip("the cluster gives Services of type LoadBalancer no address")
        return clients((given[0].get("ip") or given[0]["hostname"], port))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        if OTHER:
            found = Place(Kubectl(None, shutil.which("kubectl") or str(PROGRAMS / "kubectl")), None)
        else:
            archive = images(tmp_path_factory.mktemp("images"), ENGINES)
            running = stack.enter_context(cluster(tmp_path_factory.mktemp("cluster"), archive))
            found = Place(running.kubectl, running)
        found.kubectl.run("create", "namespace", NAMESPACE)
        found.kubectl.run("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        stack.callback(found.kubectl.run, "delete", "namespace", NAMESPACE, "--wait=false")
        app = Deployed(found.kubectl, tmp_path_factory.mktemp("app"), "nginx")
        app.apply(ENDPOINTS, wait=False)
        # They are reached by name, and have to serve on for as long as that leads to them.
        pod = {"containers": [{"name": "engine", "lifecycle": {"preStop": {"sleep": {"seconds": 15}}}}]}
        patch = yaml.safe_dump({"spec": {"template": {"spec": pod}}})
        found.kubectl.run("patch", "deployment", "app", "--namespace", NAMESPACE, "--patch", patch)
        app.wait()
        yield found


@pytest.fixture(params=[(name, engine) for name in TOPOLOGIES for engine in ENGINES], ids="-".join, scope="module")
def deployed(request: pytest.FixtureRequest, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    name, engine = request.param
    topology = TOPOLOGIES[name](engine, place.dns)
    made = Deployed(place.kubectl, tmp_path_factory.mktemp(f"{name}-{engine}"), engine)
    made.apply(topology)
    time.sleep(10)  # a tier in front that began before the one behind asks for its name again
    yield Case(place, made, name, topology)
    made.delete()


@dataclass
class Case:
    """A topology that runs in the cluster."""

    place: Place
    deployed: Deployed
    name: str
    topology: dict

    @property
    def front(self) -> str:
        return "hybrid-edge" if self.name == "hybrid" else self.name

    def version(self, number: int, **more: object) -> dict:
        """The topology with another header in its answers, so that its files are others."""
        routes = [
            x | {"response_headers": {"set": {"x-version": str(number)}}} if x["name"] in ("shop", "storefront") else x
            for x in self.topology["routes"]
        ]
        return self.topology | {"routes": routes} | more

    def expect_none_lost(self, drill: str, counts: Counts) -> None:
        if counts.lost:
            words = ("--selector", f"app.kubernetes.io/part-of={self.topology['name']}", "--prefix", "--tail=-1")
            said = self.place.kubectl.run("logs", "--namespace", NAMESPACE, *words)
            log_failures("pod", said.stdout.splitlines())
        TABLE.expect_none_lost(drill, f"{self.name} {self.deployed.engine}", counts)


def test_updates_lose_nothing(deployed: Case) -> None:
    with deployed.place.clients(deployed.front) as counts:
        for number in range(UPDATES):
            deployed.deployed.apply(deployed.version(number))
    deployed.expect_none_lost(f"{UPDATES} updates", counts)


def test_a_configuration_that_the_engine_refuses_replaces_nothing(deployed: Case) -> None:
    engine = deployed.deployed.engine
    with deployed.place.clients(deployed.front) as counts:
        deployed.deployed.apply(deployed.version(100, engines={engine: REFUSED[engine]}), wait=False)
        stuck = deployed.deployed.wait("20s", check=False)
        assert stuck
        for name in stuck:
            deployed.place.kubectl.run("rollout", "undo", "--namespace", NAMESPACE, f"deployment/{name}")
        deployed.deployed.wait()
        deployed.deployed.apply(deployed.version(101))
    deployed.expect_none_lost("refused configuration", counts)


def test_endpoints_are_scaled(deployed: Case) -> None:
    kubectl = deployed.place.kubectl
    with deployed.place.clients(deployed.front) as counts:
        for number in (5, 1, 2):
            kubectl.run("scale", "--namespace", NAMESPACE, "deployment/app", f"--replicas={number}")
            kubectl.run("rollout", "status", "--namespace", NAMESPACE, "deployment/app", "--timeout", "60s")
            time.sleep(8)
    deployed.expect_none_lost("endpoints 2-5-1-2", counts)


def test_a_node_is_drained(deployed: Case) -> None:
    if deployed.place.cluster is None:
        pytest.skip("nodes of another cluster are not ours to drain")
    kubectl, node = deployed.place.kubectl, deployed.place.cluster.nodes[-1].name
    with deployed.place.clients(deployed.front) as counts:
        kubectl.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", "120s", seconds=150)
    kubectl.run("uncordon", node)
    deployed.expect_none_lost("drain", counts)


def test_a_node_is_cut_off(deployed: Case, tmp_path: Path) -> None:
    """Behind a balancer that checks the nodes; a node alone may stay in a Service for as long as nobody misses it."""
    if deployed.place.cluster is None:
        pytest.skip("nodes of another cluster are not ours to cut off")
    kubectl, node = deployed.place.kubectl, deployed.place.cluster.nodes[-1]
    for name in (*deployed.deployed.names, "app"):  # on both nodes again
        kubectl.run("rollout", "restart", "--namespace", NAMESPACE, f"deployment/{name}")
        kubectl.run("rollout", "status", "--namespace", NAMESPACE, f"deployment/{name}", "--timeout", "120s")
    service = kubectl.get("service", deployed.front, "--namespace", NAMESPACE)
    port = service["spec"]["ports"][0]["nodePort"]
    time.sleep(10)
    try:
        with (
            front([f"{x.address}:{port}" for x in deployed.place.cluster.nodes], tmp_path) as address,
            clients(address) as counts,
        ):
            node.cable("down")
            time.sleep(AWAY_SECONDS + 15)
    finally:
        node.cable("up")
        kubectl.run("wait", "--for", "condition=Ready", "--timeout", "60s", f"node/{node.name}")
        deployed.deployed.wait()
    deployed.expect_none_lost("node cut off", counts)


@dataclass(frozen=True)
class Pod:
    """An engine in a pod, as clients outside of the cluster see it: through a port of its node."""

    place: Place
    host: str
    ports: dict[str, int]

    def address(self, listener: str) -> tuple[str, int]:
        return self.host, self.ports[listener]

    def access_lines(self) -> list[str]:
        words = ("--selector", "app.kubernetes.io/part-of=shop", "--tail=-1")
        return self.place.kubectl.run("logs", "--namespace", NAMESPACE, *words).stdout.splitlines()

    def ensure_alive(self) -> None:
        pass  # kubelet starts it again, and the case has failed


@pytest.mark.parametrize("engine", ENGINES)
def test_the_shop_behaves_as_the_oracle_says(engine: str, place: Place, tmp_path: Path) -> None:
    """The cases of `lbgen verify`, with its shorter times; clients and endpoints are outside of the cluster."""
    if place.cluster is None:
        pytest.skip("endpoints at the topology's addresses need a network of ours")
    version = engine_by_name(engine).versions[0]
    plan = with_version(resolve(lbgen.load(str(ROOT / "examples/shop/topology.yaml"))), engine, version)
    scale = choose_scale(plan, lambda _: True)
    plan = scale_times(plan, scale)
    cases = (*(ScheduledCase(x) for x in request_cases(plan, CLIENT, most=1_000, seed=1)), *fault_cases(plan, CLIENT))
    deployed = Deployed(place.kubectl, tmp_path, engine)
    small_buffers()  # as `verify` has them, so that a peer that stops reading blocks soon
    buffers = [{"name": f"net.ipv4.{name}", "value": SMALL_BUFFERS} for name in BUFFERS]
    patch_of_pods = {"spec": {"template": {"spec": {"securityContext": {"sysctls": buffers}}}}}
    with (
        place.cluster.surrounded(),
        pytest.MonkeyPatch.context() as patch,
        stand_in_servers(stand_ins(plan, tmp_path)) as endpoints,
    ):
        patch.setattr(parts, "render_with", lambda which, at, *more: render_with(which, scale_times(at, scale), *more))
        deployed.apply((ROOT / "examples/shop/topology.yaml").read_text(encoding="utf-8"), replicas={"": 1}, wait=False)
        place.kubectl.run(
            "patch", "deployment", "shop", "--namespace", NAMESPACE, "--patch", yaml.safe_dump(patch_of_pods)
        )
        deployed.wait()
        found = place.kubectl.get("pods", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/part-of=shop")
        serving = next(x for x in found["items"] if "deletionTimestamp" not in x["metadata"])
        service = place.kubectl.get("service", "shop", "--namespace", NAMESPACE)
        pod = Pod(place, serving["status"]["hostIP"], {x["name"]: x["nodePort"] for x in service["spec"]["ports"]})
        job = Job(engine, version, Binary(Path(engine), version), plan, cases, folder=str(tmp_path))
        done = run_cases(job, pod, endpoints, no_progress)
    deployed.delete()
    failed = [each for each in done.results if each.state is CaseState.FAIL]
    states = Counter(str(each.state) for each in done.results)
    TABLE.add("verify", f"shop {engine}", ", ".join(f"{number} {state}" for state, number in states.items()))
    assert not failed, "\n".join(f"{each.case}: {each.detail} {each.differences}" for each in failed)
    assert states[str(CaseState.PASS)] > 100


def test_a_stack_is_started_changed_taken_back_and_removed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lbgen up --runtime kubernetes` and what comes after it."""
    if place.kubectl.config is not None:
        monkeypatch.setenv("KUBECONFIG", str(place.kubectl.config))
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    shop = TOPOLOGIES["shop"]("haproxy", place.dns) | {"name": "store"}

    def loaded(**more: object) -> lbgen.Topology:
        (tmp_path / "shop.yaml").write_text(yaml.safe_dump(shop | more, sort_keys=False), encoding="utf-8")
        return lbgen.load(str(tmp_path / "shop.yaml"))

    how = {"runtime": "kubernetes", "accept": ("all",), "namespace": NAMESPACE}
    stack = lbgen.up(loaded(), ["haproxy"], **how)
    assert [each.running for each in stack.engines] == [True, True]
    assert lbgen.up(loaded(), ["haproxy"], **how).unchanged
    with place.clients("store") as counts:
        changed = loaded(max_body="7MiB")
        assert [str(x.action) for x in lbgen.preview(changed, by_reload=True).parts] == ["replace without a gap"]
        assert lbgen.reload(changed).reloaded
        with pytest.raises(LbgenError, match=r"LB413: haproxy: CrashLoopBackOff"):
            lbgen.reload(loaded(engines={"haproxy": REFUSED["haproxy"]}))
        assert len(lbgen.up(changed, ["haproxy"], replicas={"": 3}, **how).engines) == 3
    words = ("--namespace", NAMESPACE, "--selector", "app.kubernetes.io/part-of=store")
    assert len(place.kubectl.get("configmaps", *words)["items"]) == 3  # of versions that `rollout undo` knows
    assert any(each.record for each in stacks.logs("store"))
    stacks.down("store")
    found = place.kubectl.get("deployments,services,configmaps,pods,networkpolicies,poddisruptionbudgets", *words)
    assert found["items"] == []
    assert place.kubectl.get("deployment", "app", "--namespace", NAMESPACE)
    assert counts.good > 100
    assert not counts.lost
