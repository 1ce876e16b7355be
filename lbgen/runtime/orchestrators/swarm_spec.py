"""The stack file of an exported swarm as the docker API takes it: services, and the contents of configs and secrets."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct

from lbgen.engines.api import engine as engine_by_name
from lbgen.runtime.docker import images
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.orchestrators.model import Deployment, Service
from lbgen.runtime.orchestrators.names import label
from lbgen.spec.quantities import parse_duration

if TYPE_CHECKING:
    from docker import DockerClient

    Object = dict[str, Any]

HASH, TEMPLATE = "io.lbgen.hash", "io.lbgen.template"  # of a service, and of its tasks alone
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


class Wanted(Struct, frozen=True):
    """A service as it should be: `spec` as the API takes it, but for the ids of configs and secrets, whose contents
    `data` has by kind and name."""

    service: Service
    name: str
    spec: Object
    data: dict[str, dict[str, bytes]]

    @property
    def labels(self) -> dict[str, str]:
        return {HASH: _digest(self.spec), TEMPLATE: _digest(self.spec["task_template"])}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def wanted_services(client: DockerClient, wanted: Deployment) -> list[Wanted]:
    stack = yaml.safe_load(wanted.folder["stack.yaml"])
    contents = {x.path: x.content() for x in wanted.folder.copies if x.is_copied}
    contents |= {name: text.encode() for name, text in wanted.folder.items()}
    found = []
    for service in wanted.record.services:
        written = stack["services"][service.name]
        data = {
            kind: {x["source"]: contents[stack[kind][x["source"]]["file"][2:]] for x in written.get(kind, ())}
            for kind in ("configs", "secrets")
        }
        spec = _spec(wanted.record.name, service, written, _image(client, service, written["image"]))
        found.append(Wanted(service, name_of(wanted.record.name, service.name), spec, data))
    return found


def _image(client: DockerClient, service: Service, written: str) -> str:
    """The image that a variable names, else one that was built here, else the official one. One that no registry has
    is named by its id: nodes that have it ask no registry for it then."""
    from docker.errors import ImageNotFound

    engine = engine_by_name(service.engine)
    named = _VARIABLE.fullmatch(written)
    asked = os.environ.get(named[1], "") if named else written
    reference = asked or images.look_up(client, engine, service.version).reference or (named[2] if named else "")
    with docker_errors(f"looking for the image {reference}"):
        try:
            found = client.images.get(reference)
        except ImageNotFound:
            return reference
    return reference if found.attrs.get("RepoDigests") else str(found.id)


def _spec(stack: str, service: Service, written: Object, image: str) -> Object:
    """What `docker stack deploy` makes of the service."""
    deploy, check = written["deploy"], written.get("healthcheck")
    container: Object = {
        "Image": image,
        "Command": written["entrypoint"],
        "Dir": written["working_dir"],
        "User": written["user"],
        "ReadOnly": written["read_only"],
        "CapabilityDrop": written["cap_drop"],
        "StopSignal": written["stop_signal"],
        "StopGracePeriod": _nanoseconds(written["stop_grace_period"]),
        "Env": [f"{name}={value}" for name, value in written.get("environment", {}).items()],
        "Sysctls": written.get("sysctls", {}),
        "Mounts": [
            {"Type": "tmpfs", "Target": x["target"], "TmpfsOptions": {"SizeBytes": x["tmpfs"]["size"]}}
            for x in written["volumes"]
        ],
        "Configs": [_reference("Config", x) for x in written.get("configs", ())],
        "Secrets": [_reference("Secret", x) for x in written.get("secrets", ())],
    }
    if check is not None:
        times = {"Interval": "interval", "Timeout": "timeout", "StartPeriod": "start_period"}
        container["Healthcheck"] = {name: _nanoseconds(check[key]) for name, key in times.items()}
        container["Healthcheck"] |= {"Test": check["test"], "Retries": check["retries"]}
    limits, restart = deploy["resources"]["limits"], deploy["restart_policy"]
    networks = [{"Target": network_of(stack), "Aliases": [service.name]}]
    networks += [{"Target": name} for name in written.get("networks", ()) if name != "default"]
    template: Object = {
        "ContainerSpec": container,
        "Resources": {"Limits": {"MemoryBytes": int(limits["memory"]), "Pids": limits["pids"]}},
        "RestartPolicy": {"Condition": restart["condition"], "Delay": _nanoseconds(restart["delay"])},
        "LogDriver": {"Name": written["logging"]["driver"], "Options": written["logging"]["options"]},
        "Networks": networks,
    }
    if most := deploy.get("placement", {}).get("max_replicas_per_node"):
        template["Placement"] = {"MaxReplicas": most}
    ports = [
        {
            "Protocol": x["protocol"],
            "TargetPort": x["target"],
            "PublishedPort": x["published"],
            "PublishMode": x["mode"],
        }
        for x in written.get("ports", ())
    ]
    mode = {"Global": {}} if deploy["mode"] == "global" else {"Replicated": {"Replicas": deploy["replicas"]}}
    return {
        "task_template": template,
        "mode": mode,
        "update_config": _update(deploy["update_config"]),
        "rollback_config": _update(deploy["rollback_config"]),
        "endpoint_spec": {"Mode": deploy["endpoint_mode"], "Ports": ports},
    }


def network_of(stack: str) -> str:
    return f"{label(stack)}_lbgen"


def _nanoseconds(text: str) -> int:
    return parse_duration(text) * 1_000_000


def _update(written: Object) -> Object:
    found = {
        "Parallelism": written["parallelism"],
        "Delay": _nanoseconds(written["delay"]),
        "Monitor": _nanoseconds(written["monitor"]),
        "Order": written["order"],
    }
    return found | ({"FailureAction": written["failure_action"]} if "failure_action" in written else {})


def _reference(kind: str, written: Object) -> Object:
    file = {"Name": written["target"], "UID": written["uid"], "GID": written["gid"], "Mode": written["mode"]}
    return {f"{kind}Name": written["source"], "File": file}


def name_of(stack: str, service: str) -> str:
    return f"{label(stack)}_{service}"
