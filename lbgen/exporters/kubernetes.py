"""Kubernetes: for each tier a Deployment with immutable files named by their digest, and what keeps it reachable while
nodes and versions change.

Tiers reach each other by headless names, so that the engine in front sees each pod, checks it and tries another one: a
ClusterIP keeps connections to pods that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import Diagnostic
from lbgen.engines.agent_spec import FILE as AGENT_FILE
from lbgen.engines.api import RenderedFile
from lbgen.exporters import containers
from lbgen.exporters.containers import AGENT_IMAGE, DRAIN_SECONDS, GRACE_SECONDS, HEALTHY, LOW_PORTS, START, WORK
from lbgen.exporters.parts import (
    CONFIG,
    Exported,
    Part,
    Request,
    Target,
    build_parts,
    dump,
    exported,
    kept_otherwise,
    lost_addresses,
    per_replica,
    refuse,
    slots,
    text_file,
    weak_links,
)
from lbgen.plan.listener import Listener
from lbgen.plan.tls import File
from lbgen.runtime.docker.helper_image import USER
from lbgen.runtime.orchestrators.names import digest, label

if TYPE_CHECKING:
    _Object = dict[str, Any]

MOST_BYTES = 1_000_000  # of the files in a ConfigMap, which holds 1 MiB with all else of it
_GROWTH = 4  # as many replicas at most, of a tier that is scaled by load
# Until nobody begins with a pod, before its engine is told to stop: all nodes have taken it out of its Service, and its
# headless name leads to it no more: cluster DNS lets an answer live for 30 s at most, and engines for 10 s more.
_OUT_SECONDS, _NAME_SECONDS = 10, 40
_KEY = re.compile(r"[^-._a-zA-Z0-9]")
_MEMORY = {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}
_RIGHTS = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def _target(request: Request) -> Target:
    growth = _GROWTH if request.autoscale else 1

    def endpoints(name: str, count: int) -> tuple[tuple[str, int], ...]:
        return ((f"{label(name)}-headless.{request.namespace}.svc.cluster.local", slots(growth * count)),)

    return Target(
        "kubernetes",
        work=lambda name: WORK,
        endpoints=endpoints,
        least=2,
        names=slots(1),
        cluster=True,
        drains=True,
    )


def export(request: Request) -> Exported:
    """Manifests for `kubectl apply --kustomize`, private keys as files beside them, and a README."""
    parts = build_parts(request, _target(request))
    files: list[RenderedFile] = []
    copies: list[File] = []
    generators: list[_Object] = []
    findings: list[Diagnostic] = []
    header = f"lbgen: Kubernetes for the topology {request.name}. Edit the topology, not this file."
    for part in parts:
        maps = _config_maps(request, part)
        files.append(RenderedFile(f"{part.name}-files.yaml", dump(*(each for each, _ in maps), header=header)))
        files.append(RenderedFile(f"{part.name}.yaml", dump(*_objects(request, parts, part, maps), header=header)))
        copies += [copy for copy in part.copies(f"keys/{part.name}") if copy.secret]
        generators += _secret_generator(request, part)
        most = part.replicas * (_GROWTH if request.autoscale else 1)
        findings += [*per_replica(part, most), *weak_links(part), *lost_addresses(part, _KEPT), *_one_address(part)]
    names = [name for part in parts for name in (f"{part.name}-files.yaml", f"{part.name}.yaml")]
    kustomization = _kustomization(request, parts, names, generators)
    files += [RenderedFile("kustomization.yaml", dump(kustomization, header=header)), _readme(request, parts)]
    return exported("kubernetes", files, copies, findings, request, parts)


_KEPT = (
    "the Service keeps clients' addresses by externalTrafficPolicy: Local; where a balancer in front of the cluster "
    "does not, it has to send a PROXY header"
)


def _one_address(part: Part) -> Iterator[Diagnostic]:
    """The agent asks one address of a name, of which the engine uses several."""
    if AGENT_FILE in part.rendered:
        for pool in part.plan.pools:
            if pool.active is not None and any(x.addresses > 1 for x in pool.endpoints):
                message = f"pool {pool.name}: the agent checks one address of a name, and weighs all of them by it"
                yield kept_otherwise(part.plan, message, f"{pool.field}.health.active")


def _labels(request: Request, part: Part) -> dict[str, str]:
    """By which a part's pods are found, whatever its engine: a Deployment keeps its selector."""
    return {"app.kubernetes.io/instance": label(part.name), "app.kubernetes.io/part-of": label(request.name)}


def _meta(request: Request, part: Part, name: str = "", **more: str) -> _Object:
    labels = {
        "app.kubernetes.io/name": part.engine.name,
        **_labels(request, part),
        "app.kubernetes.io/managed-by": "lbgen",
        **more,
    }
    return {"name": name or label(part.name), "namespace": request.namespace, "labels": labels}


def _files(part: Part) -> dict[str, str]:
    """What ConfigMaps hold, by path: all files but private keys. The cluster itself asks whether an engine serves."""
    every = (*part.rendered.files, *(x for x in containers.scripts(part) if x.name != HEALTHY))
    public = (x for x in part.rendered.copies if not x.secret and x.is_copied)
    return {file.name: file.text for file in every} | {x.path: x.content().decode() for x in public}


def _config_maps(request: Request, part: Part) -> list[tuple[_Object, dict[str, str]]]:
    """The ConfigMaps of a part, each with the paths of its keys; several where one would be too large. LbgenError LB311
    for a file that none can hold."""
    files = _files(part)
    groups: list[dict[str, str]] = [{}]
    room = MOST_BYTES
    for path, text in sorted(files.items()):
        size = len(text.encode()) + len(path)
        if size > MOST_BYTES:
            message = f"{path} of {part.engine.title} has {size:,} bytes, and a ConfigMap holds {MOST_BYTES:,}"
            raise refuse(part.plan, message, "", "spread the routes over tiers, or choose an engine with smaller files")
        if size > room:
            groups.append({})
            room = MOST_BYTES
        groups[-1][path] = text
        room -= size
    mark = digest(*(each for item in sorted(files.items()) for each in item))
    found = []
    for number, group in enumerate(groups):
        keys = _keys(group)
        name = f"{label(part.name)}-{mark}{f'-{number + 1}' if number else ''}"
        meta = _meta(request, part, name, **{"lbgen.io/files": mark})
        data = {key: group[path] for key, path in keys.items()}
        found.append(
            ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "data": data}, keys)
        )
    return found


def _keys(paths: dict[str, str]) -> dict[str, str]:
    """A key for each path, which has no slashes."""
    found: dict[str, str] = {}
    for path in paths:
        key = _KEY.sub("_", path)
        found[key if key not in found else f"{key}-{len(found)}"] = path
    return found


def _secret_name(part: Part) -> str:
    return f"{label(part.name)}-keys-{digest(*(file.content() for file in part.secrets))}"


def _secret_generator(request: Request, part: Part) -> Iterator[_Object]:
    """The Secret of a part's private keys, which kustomize makes of the files."""
    if not part.secrets:
        return
    keys = _keys({file.path: "" for file in part.secrets})
    yield {
        "name": _secret_name(part),
        "files": [f"{key}=keys/{part.name}/{path}" for key, path in keys.items()],
        "options": {"disableNameSuffixHash": True, "immutable": True, "labels": _labels(request, part)},
    }


def _objects(
    request: Request, parts: tuple[Part, ...], part: Part, maps: list[tuple[_Object, dict[str, str]]]
) -> list[_Object]:
    found = [
        _deployment(request, part, maps),
        _service(request, part),
        _headless(request, part),
        _disruption_budget(request, part),
        _network_policy(request, parts, part),
    ]
    return [*found, _autoscaler(request, part)] if request.autoscale else found


def _deployment(request: Request, part: Part, maps: list[tuple[_Object, dict[str, str]]]) -> _Object:
    metrics = part.plan.metrics
    scraped = {} if metrics is None else {"prometheus.io/scrape": "true", "prometheus.io/port": str(metrics.port)}
    labels = _meta(request, part)["labels"]
    template: _Object = {
        "metadata": {"labels": labels} | ({"annotations": scraped} if scraped else {}),
        "spec": _pod(request, part, maps),
    }
    replicas = {} if request.autoscale else {"replicas": part.replicas}
    spec = replicas | {
        "revisionHistoryLimit": 5,
        "progressDeadlineSeconds": 120,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "selector": {"matchLabels": _labels(request, part)},
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(request, part), "spec": spec}


def _pod(request: Request, part: Part, maps: list[tuple[_Object, dict[str, str]]]) -> _Object:
    security: _Object = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if containers.has_low_port(part.plan):
        security["sysctls"] = [{"name": LOW_PORTS, "value": "0"}]
    # A constraint of zones beside it would have the scheduler pass over nodes that name none, and spread nothing there.
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(request, part)},
        "matchLabelKeys": ["pod-template-hash"],
    }
    others = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": _labels(request, part)}}
    apart = [{"weight": 100, "podAffinityTerm": others}]
    sources: list[_Object] = [
        {"configMap": {"name": each["metadata"]["name"], "items": _items(keys)}} for each, keys in maps
    ]
    if part.secrets:
        keys = _keys({file.path: "" for file in part.secrets})
        sources.append({"secret": {"name": _secret_name(part), "items": _items(keys)}})
    shared = {"shareProcessNamespace": True} if part.spec.agent else {}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _stop_after(part) + GRACE_SECONDS + 10,
        **shared,
        "securityContext": security,
        "topologySpreadConstraints": [spread],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": apart}},
        "containers": [_engine(part), *([_agent(part)] if part.spec.agent else [])],
        "volumes": [
            {"name": "files", "projected": {"defaultMode": 0o440, "sources": sources}},
            {"name": "work", **_MEMORY},
            {"name": "tmp", **_MEMORY},
        ],
    }


def _items(keys: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "path": path} for key, path in keys.items()]


def _engine(part: Part) -> _Object:
    ports = [
        {"name": _port_name(x), "containerPort": x.port, "protocol": str(x.protocol).upper()}
        for x in part.plan.listeners
    ]
    if part.plan.metrics is not None:
        ports.append({"name": "metrics", "containerPort": part.plan.metrics.port, "protocol": "TCP"})
    container: _Object = {
        "name": "engine",
        "image": containers.image(part),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", f"{CONFIG}/{START}"],
        "workingDir": WORK,
        "ports": ports,
    }
    if part.spec.env:
        container["env"] = [{"name": name, "value": value} for name, value in part.spec.env]
    return container | {
        "resources": _resources(part),
        **_probes(part),
        "lifecycle": {"preStop": _pre_stop(part)},
        "securityContext": _RIGHTS,
        "volumeMounts": [
            {"name": "files", "mountPath": CONFIG, "readOnly": True},
            {"name": "work", "mountPath": WORK},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # in the container
        ],
    }


def _stop_after(part: Part) -> int:
    """The seconds for which an engine goes on after its pod was taken out."""
    return max(_OUT_SECONDS if part.entry else _NAME_SECONDS, DRAIN_SECONDS if part.spec.drain_path else 0)


def _pre_stop(part: Part) -> _Object:
    """What comes before the engine is told to stop: time, and where that would cut requests, a word to end connections
    with their answers."""
    if not part.spec.drain_path:
        return {"sleep": {"seconds": _stop_after(part)}}
    script = f"{containers.drain_script(part)}; sleep {_stop_after(part)}"
    return {"exec": {"command": ["/bin/bash", "-c", script]}}


def _agent(part: Part) -> _Object:
    return {
        "name": "agent",
        "image": AGENT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", containers.agent_script(part)],
        "workingDir": WORK,
        "resources": _resources(part),
        "securityContext": _RIGHTS,
        "volumeMounts": [
            {"name": "work", "mountPath": WORK},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # in the container
        ],
    }


def _resources(part: Part) -> _Object:
    """What a pod is scheduled by, and the topology's limit. No limit of CPU: it would add waits below the capacity."""
    return {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": str(part.plan.containers.memory)}}


def _probes(part: Part) -> _Object:
    check = containers.health_check(part.plan)
    if check is None:
        return {}
    alive = {"tcpSocket": {"port": check.port}, "periodSeconds": 10, "timeoutSeconds": 3, "failureThreshold": 3}
    ready: _Object = {"tcpSocket": {"port": check.port}}
    if check.path:
        headers = [{"name": "Host", "value": check.host}] if check.host else []
        asked = {"path": check.path, "port": check.port, "scheme": "HTTPS" if check.tls else "HTTP"}
        ready = {"httpGet": asked | ({"httpHeaders": headers} if headers else {})}
    ready |= {"periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2}
    return {"readinessProbe": ready, "livenessProbe": alive}


def _port_name(listener: Listener) -> str:
    """Its name where that can name a port: 15 lower-case letters, digits and hyphens at most, with a letter."""
    name = listener.name.lower()
    fits = re.fullmatch(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", name)
    return name if fits and name != "metrics" else f"port-{listener.port}-{str(listener.protocol)[0]}"


def _service_ports(part: Part) -> list[_Object]:
    return [
        {"name": _port_name(x), "port": x.port, "targetPort": x.port, "protocol": str(x.protocol).upper()}
        for x in part.plan.listeners
    ]


def _service(request: Request, part: Part) -> _Object:
    """For clients: of the tier in front with their own addresses, from outside of the cluster."""
    kind: _Object = {"type": "ClusterIP"}
    if part.entry:
        kind = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    spec = kind | {"selector": _labels(request, part), "ports": _service_ports(part)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(request, part), "spec": spec}


def _headless(request: Request, part: Part) -> _Object:
    meta = _meta(request, part, f"{label(part.name)}-headless")
    spec = {"clusterIP": "None", "selector": _labels(request, part), "ports": _service_ports(part)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _disruption_budget(request: Request, part: Part) -> _Object:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _labels(request, part)}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _meta(request, part), "spec": spec}


def _network_policy(request: Request, parts: tuple[Part, ...], part: Part) -> _Object:
    """Clients reach the tier in front, each other tier is reached by those before it, and metrics by the cluster."""
    ports = [{"port": x.port, "protocol": str(x.protocol).upper()} for x in part.plan.listeners]
    rules: list[_Object] = [{"ports": ports}]
    if not part.entry:
        before = (x for x in parts if any(p.leads_to and p.leads_to[0] == part.tier for p in x.plan.pools))
        rules = [{"from": [{"podSelector": {"matchLabels": _labels(request, x)}} for x in before], "ports": ports}]
    if part.plan.metrics is not None:
        scraped = [{"port": part.plan.metrics.port, "protocol": "TCP"}]
        rules.append({"from": [{"namespaceSelector": {}}], "ports": scraped})
    spec = {
        "podSelector": {"matchLabels": _labels(request, part)},
        "policyTypes": ["Ingress"],
        "ingress": rules,
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _meta(request, part),
        "spec": spec,
    }


def _autoscaler(request: Request, part: Part) -> _Object:
    """More replicas above 0.3 CPUs each: three times what a pod is scheduled by."""
    cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 300}},
    }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": label(part.name)},
        "minReplicas": part.replicas,
        "maxReplicas": part.replicas * _GROWTH,
        "metrics": [cpu],
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _meta(request, part),
        "spec": spec,
    }


def _kustomization(request: Request, parts: tuple[Part, ...], names: list[str], generators: list[_Object]) -> _Object:
    images = dict.fromkeys(containers.image(part) for part in parts)
    if any(part.spec.agent for part in parts):
        images[AGENT_IMAGE] = None
    pairs = (reference.rpartition(":") for reference in images)
    found: _Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": request.namespace,
        "labels": [
            {
                "pairs": {
                    "app.kubernetes.io/part-of": label(request.name),
                    "app.kubernetes.io/managed-by": "lbgen",
                }
            }
        ],
        "resources": names,
        "images": [{"name": name, "newName": name, "newTag": tag} for name, _, tag in pairs],
    }
    return found | ({"secretGenerator": generators} if generators else {})


def _readme(request: Request, parts: tuple[Part, ...]) -> RenderedFile:
    rows = [
        {
            "name": label(part.name),
            "title": f"{part.engine.title} {part.version}",
            "image": containers.image(part),
            "replicas": part.replicas,
            "entry": part.entry,
            "keys": [f"keys/{part.name}/{file.path}" for file in part.secrets],
            "agent": part.spec.agent,
        }
        for part in parts
    ]
    return text_file(
        "README.md",
        "kubernetes.md.j2",
        name=request.name,
        label=label(request.name),
        parts=rows,
        namespace=request.namespace,
        agent_image=AGENT_IMAGE,
        autoscale=_GROWTH if request.autoscale else 0,
    )
