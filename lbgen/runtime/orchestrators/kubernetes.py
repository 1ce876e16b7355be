"""Kubernetes, by `kubectl`, so that its contexts and login plugins count.

`up` applies an export in two steps: files, headless names and Deployments first, and what clients and nodes go by
(Services, budgets, policies) once all pods are ready. A version that does not get ready is taken back by
`kubectl rollout undo`, with nothing of the second step done.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.runtime.common.driver import Action, PartChange, PartKind, Progress, Step
from lbgen.runtime.common.logs import Line, access_parser
from lbgen.runtime.common.state import Address
from lbgen.runtime.docker.labels import OWNER, OWNER_PATH, foreign_owner, owner_labels
from lbgen.runtime.orchestrators.model import Deployment, Options, OrchestratedStack, Record, Service, TaskState

if TYPE_CHECKING:
    _Object = dict[str, Any]

_PART_OF, _INSTANCE = "app.kubernetes.io/part-of", "app.kubernetes.io/instance"
_MANAGED = "app.kubernetes.io/managed-by=lbgen"
_REVISION = "deployment.kubernetes.io/revision"
_FILES = ("ConfigMap", "Secret")
_KINDS = "deployments,services,configmaps,secrets,poddisruptionbudgets,networkpolicies,horizontalpodautoscalers"
_APPLY = ("apply", "--server-side", "--force-conflicts", "--field-manager", "lbgen", "--filename", "-")
_HOPELESS = re.compile(r"CrashLoopBackOff|ImagePullBackOff|ErrImage.*|InvalidImageName|Create.*Error|RunContainerError")
_LOG_LINE = re.compile(r"\[pod/(?P<pod>[^/]+)/(?P<container>[^\]]+)\] ?(?P<text>.*)")
_ASK_SECONDS, _CHANGE_SECONDS, _END_SECONDS, _LOOK_SECONDS = 30, 120, 180, 1.0
_LOG_LINES, _LOG_STREAMS = "8", "100"  # of a pod that fails; pods that are followed at most


class _NotReadyError(Exception):
    """A version does not get ready, and why."""


class _Cluster:
    """kubectl with the context and namespace of a record."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.selector = f"{_PART_OF}={record.name},{_MANAGED},{OWNER}={owner_labels()[OWNER]}"
        self.pods = f"{_PART_OF}={record.name},{_MANAGED}"

    def argv(self, *words: str) -> list[str]:
        """The command. Raises EngineError LB433 where there is no kubectl."""
        program = shutil.which("kubectl")
        if program is None:
            raise _unusable("kubectl is not on PATH")
        context = ("--context", self.record.context) if self.record.context else ()
        return [program, *context, "--namespace", self.record.namespace, *words]

    def run(self, *words: str, given: str = "", seconds: float = _ASK_SECONDS) -> str:
        """What kubectl prints. Raises EngineError LB434 with what it says when it fails."""
        argv = self.argv(*words)
        try:
            done = subprocess.run(  # noqa: S603  # words of ours
                argv, input=given, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise _unusable(f"kubectl {words[0]} did not end within {seconds:.0f} s") from None
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise EngineError(Diagnostic("LB434", f"kubectl {words[0]}: {said}", hint=f"it was {self.record.where}"))
        return done.stdout

    def objects(self, *words: str, given: str = "", seconds: float = _ASK_SECONDS) -> list[_Object]:
        """The objects that it prints."""
        text = self.run(*words, "--output", "json", given=given, seconds=seconds)
        found: _Object = json.loads(text) if text.strip() else {"items": []}
        return list(found["items"]) if "items" in found else [found]

    def apply(self, objects: Sequence[_Object], *more: str) -> list[_Object]:
        """The objects as they are then."""
        given = yaml.safe_dump_all(objects, sort_keys=False)
        return self.objects(*_APPLY, *more, given=given, seconds=_CHANGE_SECONDS) if objects else []

    def delete(self, objects: Sequence[_Object]) -> None:
        if objects:
            given = yaml.safe_dump_all({x: each[x] for x in ("apiVersion", "kind", "metadata")} for each in objects)
            self.run("delete", "--ignore-not-found", "--wait=false", "--filename", "-", given=given)


def _unusable(message: str) -> EngineError:
    return EngineError(Diagnostic("LB433", message, hint="`kubectl cluster-info` has to work here"))


def context(record: Record) -> str:
    """The context that kubectl uses now, once its cluster has answered."""
    cluster = _Cluster(replace(record, context=""))
    try:
        name = cluster.run("config", "current-context").strip()
        cluster.run("version")
    except EngineError as error:
        raise _unusable(error.diagnostics[0].message) from None
    return name


def up(wanted: Deployment, options: Options) -> bool:
    """As `Orchestrator.up`."""
    cluster = _Cluster(wanted.record)
    desired = _desired(cluster, wanted)
    before = _existing(cluster, desired)
    first = [each for each in desired if _is_first(each)]
    try:
        done = cluster.apply(first)
        for each in (x for x in done if x["kind"] == "Deployment"):
            _wait(cluster, each, options)
    except BaseException as error:
        if any(each["kind"] == "Deployment" for each in before):
            options.progress(Progress(Step.REVERTING))
            _take_back(cluster, before, first)
        if not isinstance(error, _NotReadyError):
            raise
        hint = "what served before serves on" if before else ""
        raise EngineError(Diagnostic("LB413" if before else "LB403", str(error), hint=hint)) from None
    done += cluster.apply([each for each in desired if not _is_first(each)])
    gone = _superfluous(cluster, desired)
    cluster.delete(gone)
    versions = {_key(each): _version(each) for each in before}
    return bool(gone) or any(versions.get(_key(each)) != _version(each) for each in done)


def _desired(cluster: _Cluster, wanted: Deployment) -> list[_Object]:
    """The objects of the folder, with this state directory as their owner; their pods are those of the folder."""
    owner = owner_labels()
    with tempfile.TemporaryDirectory(prefix="lbgen-") as folder:
        wanted.folder.write(folder)
        found: list[_Object] = list(yaml.safe_load_all(cluster.run("kustomize", folder)))
    for each in found:
        each["metadata"]["labels"][OWNER] = owner[OWNER]
        each["metadata"].setdefault("annotations", {})[OWNER_PATH] = owner[OWNER_PATH]
    return found


def _existing(cluster: _Cluster, desired: Sequence[_Object]) -> list[_Object]:
    """The objects of those names that there are. Raises UsageError LB406 when one is not ours."""
    given = yaml.safe_dump_all(desired)
    found = cluster.objects("get", "--ignore-not-found", "--filename", "-", given=given)
    for each in found:
        meta = each["metadata"]
        if owner := foreign_owner(meta.get("labels", {}) | meta.get("annotations", {})):
            message = f"{each['kind']} {meta['name']} is there, and belongs to {owner}"
            hint = f"it was {cluster.record.where}; give the topology another `name`, or choose another namespace"
            raise UsageError(Diagnostic("LB406", message, hint=hint))
    return found


def _is_first(each: _Object) -> bool:
    return each["kind"] in (*_FILES, "Deployment") or each.get("spec", {}).get("clusterIP") == "None"


def _key(each: _Object) -> tuple[str, str]:
    return each["kind"], each["metadata"]["name"]


def _version(each: _Object) -> str:
    """What changes when an object is written with another content; of a Deployment not when its pods change."""
    return str(each["metadata"].get("generation") or each["metadata"]["resourceVersion"])


def _part(record: Record, name: str) -> str:
    """What a service's Deployment, or a pod of it, is called to users: the part, and of a pod its own last word."""
    service = max((x for x in record.services if f"{name}-".startswith(f"{x.name}-")), key=lambda x: len(x.name))
    return service.part if name == service.name else f"{service.part}-{name.rpartition('-')[2]}"


def _wait(cluster: _Cluster, deployment: _Object, options: Options) -> None:
    """Until all pods of a Deployment are of its version, and ready. Raises _NotReadyError."""
    name, end = deployment["metadata"]["name"], time.monotonic() + options.seconds
    while True:
        [now] = cluster.objects("get", "deployment", name)
        if _is_rolled_out(now):
            options.progress(Progress(Step.READY, _part(cluster.record, name)))
            return
        hopeless = next(_hopeless(cluster, now), "")
        if hopeless or time.monotonic() > end:
            why = hopeless or f"not all of its pods are ready after {options.seconds:.0f} s"
            raise _NotReadyError(f"{_part(cluster.record, name)}: {why}")
        time.sleep(_LOOK_SECONDS)


def _is_rolled_out(now: _Object) -> bool:
    status, wanted = now.get("status", {}), now["spec"]["replicas"]
    seen = status.get("observedGeneration", 0) >= now["metadata"]["generation"]
    return seen and all(status.get(x, 0) == wanted for x in ("replicas", "updatedReplicas", "availableReplicas"))


def _hopeless(cluster: _Cluster, deployment: _Object) -> Iterator[str]:
    """Why pods of the newest version will not get ready, with their last words."""
    instance = deployment["metadata"]["labels"][_INSTANCE]
    every = cluster.objects("get", "replicasets,pods", "--selector", f"{cluster.pods},{_INSTANCE}={instance}")
    sets = [each for each in every if each["kind"] == "ReplicaSet"]
    newest = max(sets, key=lambda x: int(x["metadata"]["annotations"].get(_REVISION, 0)), default=None)
    if newest is None:
        return
    for pod in every:
        owner = (pod["metadata"].get("ownerReferences") or [{}])[0].get("uid")
        if pod["kind"] == "Pod" and owner == newest["metadata"]["uid"]:
            for each in pod["status"].get("containerStatuses", ()):
                waiting = each["state"].get("waiting", {})
                if _HOPELESS.fullmatch(waiting.get("reason", "")):
                    name = pod["metadata"]["name"]
                    said = _last_words(cluster, name, each["name"]) or waiting.get("message", "")
                    yield f"{waiting['reason']}\n{said}"


def _last_words(cluster: _Cluster, pod: str, container: str) -> str:
    try:
        return cluster.run("logs", pod, "--container", container, "--tail", _LOG_LINES, "--previous").rstrip()
    except EngineError:
        return ""


def _take_back(cluster: _Cluster, before: Sequence[_Object], applied: Sequence[_Object]) -> None:
    """Have the Deployments of before run again, and remove those that are new."""
    old = {each["metadata"]["name"]: each for each in before if each["kind"] == "Deployment"}
    new = {each["metadata"]["name"]: each for each in applied if each["kind"] == "Deployment"}
    for name, now in new.items():
        if name not in old:
            cluster.delete([now])
            continue
        [current] = cluster.objects("get", "deployment", name)
        if current["spec"]["template"] != old[name]["spec"]["template"]:
            revision = old[name]["metadata"]["annotations"][_REVISION]
            cluster.run("rollout", "undo", f"deployment/{name}", f"--to-revision={revision}")
        if current["spec"]["replicas"] != old[name]["spec"]["replicas"]:
            cluster.run("scale", f"deployment/{name}", f"--replicas={old[name]['spec']['replicas']}")


def _superfluous(cluster: _Cluster, desired: Sequence[_Object]) -> list[_Object]:
    """What is ours and in no use any more: the files of a version that `rollout undo` can go back to are."""
    wanted = {_key(each) for each in desired}
    sets = cluster.objects("get", "replicasets", "--selector", cluster.pods)
    owned = (x for x in sets if ("Deployment", x["metadata"]["ownerReferences"][0]["name"]) in wanted)
    kept = json.dumps([each["spec"]["template"]["spec"]["volumes"] for each in owned])
    found = (
        each for each in cluster.objects("get", _KINDS, "--selector", cluster.selector) if _key(each) not in wanted
    )
    return [each for each in found if each["kind"] not in _FILES or f'"{each["metadata"]["name"]}"' not in kept]


def preview(wanted: Deployment) -> tuple[PartChange, ...]:
    """As `Orchestrator.preview`, by a dry run of the server's."""
    cluster = _Cluster(wanted.record)
    desired = _desired(cluster, wanted)
    before = {_key(each): each for each in _existing(cluster, desired)}
    after = {_key(each): each for each in cluster.apply(desired, "--dry-run=server")}
    changes = [_change(service, before, after) for service in wanted.record.services]
    there = cluster.objects("get", "deployments", "--selector", cluster.selector)
    gone = [each["metadata"]["name"] for each in there if _key(each) not in after]
    return (*changes, *(PartChange(PartKind.ENGINE, name, Action.REMOVE) for name in gone))


def _change(
    service: Service, before: dict[tuple[str, str], _Object], after: dict[tuple[str, str], _Object]
) -> PartChange:
    def change(action: Action, reason: str = "") -> PartChange:
        return PartChange(PartKind.ENGINE, service.part, action, reason)

    old, new = before.get(("Deployment", service.name)), after["Deployment", service.name]
    if old is None:
        return change(Action.CREATE)
    if old["spec"]["template"] != new["spec"]["template"]:
        return change(Action.REPLACE)
    if old["spec"]["replicas"] != new["spec"]["replicas"]:
        reason = f"{new['spec']['replicas']} replicas in place of {old['spec']['replicas']}"
        return change(Action.RELOAD, reason)
    ours = {key: each for key, each in after.items() if each["metadata"]["labels"].get(_INSTANCE) == service.name}
    others = sorted({kind for (kind, name), each in ours.items() if _differs(before.get((kind, name)), each)})
    return change(Action.RELOAD, f"{', '.join(others)} alone") if others else change(Action.NONE)


def _differs(old: _Object | None, new: _Object) -> bool:
    return old is None or any(old.get(x) != new.get(x) for x in ("spec", "data"))


def state(record: Record) -> OrchestratedStack:
    """As `Orchestrator.state`: a task for each pod."""
    cluster = _Cluster(record)
    try:
        every = cluster.objects("get", "pods,services", "--selector", cluster.pods)
    except EngineError as error:
        tasks = [_task(each, each.part, ended=error.diagnostics[0].message) for each in record.services]
        return OrchestratedStack(record.name, "", 0, 0, committed=True, engines=tuple(tasks), record=record)
    hosts = {each["metadata"]["name"]: _host(each) for each in every if each["kind"] == "Service"}
    tasks = []
    for pod in (each for each in every if each["kind"] == "Pod"):
        service = next((x for x in record.services if x.name == pod["metadata"]["labels"][_INSTANCE]), None)
        if service is not None:
            addresses = tuple(replace(x, host=hosts.get(service.name, "")) for x in service.addresses)
            tasks.append(_of_pod(_task(service, _part(record, pod["metadata"]["name"]), addresses), pod))
    return OrchestratedStack(record.name, "", 0, 0, committed=True, engines=tuple(tasks), record=record)


def _task(service: Service, name: str, addresses: tuple[Address, ...] = (), *, ended: str = "") -> TaskState:
    version, title = service.version, service.title
    return TaskState(name, title, version, "", "", addresses, ended=ended, engine=service.engine)


def _of_pod(task: TaskState, pod: _Object) -> TaskState:
    found = next((x for x in pod["status"].get("containerStatuses", ()) if x["name"] == "engine"), None)
    if found is None:  # not started yet, or without a place
        conditions = (x.get("message", "") for x in pod["status"].get("conditions", ()) if x["status"] == "False")
        return replace(task, ended=next(filter(None, conditions), pod["status"].get("phase", "")))
    now, last = found["state"], found.get("lastState", {}).get("terminated", {})
    stopped = now.get("terminated") or now.get("waiting")
    ended = "" if stopped is None else stopped.get("reason", "ended")
    died = f"{last.get('reason', '')}, exit code {last['exitCode']}" if last else ""
    return replace(task, binary=found["image"], restarts=found["restartCount"], ended=ended, died=died)


def _host(service: _Object) -> str:
    """Where clients reach a Service: the address of its balancer, else that in the cluster."""
    given = service["status"].get("loadBalancer", {}).get("ingress", [{}])[0]
    return str(given.get("ip") or given.get("hostname") or service["spec"]["clusterIP"])


def end(record: Record, progress: Callable[[Progress], None]) -> None:
    """As `Orchestrator.end`; returns when the pods are gone."""
    cluster = _Cluster(record)
    cluster.run("delete", _KINDS, "--selector", cluster.selector, "--wait=false", seconds=_CHANGE_SECONDS)
    last = time.monotonic() + _END_SECONDS
    while cluster.objects("get", "pods", "--selector", cluster.pods) and time.monotonic() < last:
        time.sleep(_LOOK_SECONDS)
    for service in record.services:
        progress(Progress(Step.STOPPED, service.part))


def lines(record: Record, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """As `Orchestrator.lines`; `follow`: until the pods that there are now have ended."""
    cluster = _Cluster(record)
    pods = [each["metadata"]["name"] for each in cluster.objects("get", "pods", "--selector", cluster.pods)]
    chosen = [name for name in pods if engine == _part(record, name)] if engine else []
    which = chosen or ["--selector", cluster.pods, "--max-log-requests", _LOG_STREAMS]
    more = ("--follow",) if follow else ()
    argv = cluster.argv("logs", *which, "--all-containers", "--prefix", "--tail=-1", *more)
    parsers = {each.part: access_parser(each.engine) for each in record.services}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603  # words of ours
        try:
            for line in running.stdout or ():
                if (found := _LOG_LINE.match(line.rstrip("\n"))) is not None:
                    yield _line(record, parsers, found)
        finally:
            running.terminate()


def _line(record: Record, parsers: dict[str, Any], found: re.Match[str]) -> Line:
    task = _part(record, found["pod"])
    parse = parsers[task.rpartition("-")[0]]
    said = parse(found["text"]) if parse is not None else None
    agent = found["container"] != "engine" and said is None  # where it writes the access log, that is the engine's
    return Line(f"{task}-agent" if agent else task, found["text"], said)
