"""The Gateway API (1.6, standard channel): a Gateway, routes, and Services of the pools' endpoints, for whatever
implementation a cluster has. It is the only target without an engine, so nothing of the contract is proven of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from lbgen.engines.api import RenderedFile
from lbgen.exporters.gateway_verdicts import findings, unsaid, written
from lbgen.exporters.parts import Exported, Request, dump, exported, refuse, refuse_acme, text_file
from lbgen.plan.conditions import Exact, Header, Method, Present, Query, Regex
from lbgen.plan.model import Forward, HeaderEdits, Listener, Mode, Plan, Pool, PoolProtocol, Protocol, Redirect, Route
from lbgen.plan.path_conditions import ExactPath, PrefixPath
from lbgen.plan.policy import Cors
from lbgen.plan.resolve import plan as build_plan
from lbgen.plan.route_values import route_facts
from lbgen.plan.rules import Match
from lbgen.plan.tiers import tiers
from lbgen.plan.tls import File
from lbgen.runtime.orchestrators.names import label

if TYPE_CHECKING:
    _Object = dict[str, Any]

_API = "gateway.networking.k8s.io/v1"
_MOST_MATCHES, _MOST_HOSTS, _MOST_RULES = 64, 16, 16  # of a rule, of a route, of a route
_SERVICE_NAME = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)\.svc(\..+)?")
_GRPC_PATH = re.compile(r"/(?P<service>[A-Za-z0-9_.]+)(?:/(?P<method>[A-Za-z0-9_]+))?")


def export(request: Request) -> Exported:
    """gateway.yaml, routes.yaml, backends.yaml, kustomization.yaml with certificates, and a README with a verdict for
    each feature. LbgenError LB311 for tiers, and for features that the API has no word for and nobody accepts."""
    if request.topology.model.tiers is not None:
        first = tiers(request.topology)[0].plan
        hint = (
            "write a topology of the tier that reads requests; Kubernetes' Services take the place of the one in front"
        )
        field = f"tiers.{first.tier.tier if first.tier else ''}.engine"
        raise refuse(first, "the Gateway API describes one proxy, and each tier is one", field, hint)
    plan = build_plan(request.topology)
    refuse_acme(request.topology, plan, "gateway-api")
    found = list(findings(plan, request.accept))
    manifests = {
        "gateway.yaml": [_gateway(request, plan)],
        "routes.yaml": [each for route in plan.routes for each in _route(request, plan, route)],
        "backends.yaml": [each for pool in plan.pools for each in _backend(request, pool)],
    }
    header = f"lbgen: the Gateway API for the topology {request.name}. Edit the topology, not this file."
    manifests = {name: objects for name, objects in manifests.items() if objects}
    files = [RenderedFile(name, dump(*objects, header=header)) for name, objects in manifests.items()]
    files += [
        RenderedFile("kustomization.yaml", dump(_kustomization(request, plan, list(manifests)), header=header)),
        _readme(request, plan),
    ]
    return exported("gateway-api", files, list(_copies(plan)), found, request)


def _name(*words: str) -> str:
    """A name of DNS."""
    return label("-".join(words))


def _meta(request: Request, name: str, **labels: str) -> _Object:
    own = {"app.kubernetes.io/part-of": label(request.name), "app.kubernetes.io/managed-by": "lbgen", **labels}
    return {"name": name, "namespace": request.namespace, "labels": own}


def _object(request: Request, kind: str, name: str, spec: _Object, api: str = _API) -> _Object:
    return {"apiVersion": api, "kind": kind, "metadata": _meta(request, name), "spec": spec}


def _copies(plan: Plan) -> Iterator[File]:
    for field, file in plan.named_files():
        if file.source is None:
            message = f"{file.path} is a path of a machine, which a cluster does not have"
            raise refuse(plan, message, field, "name it relative to the topology, so that it is exported too")
    yield from plan.files


def _gateway(request: Request, plan: Plan) -> _Object:
    listeners = [_listener(plan, x) for x in plan.listeners]
    spec: _Object = {"gatewayClassName": request.gateway_class, "listeners": listeners}
    verified = [x for x in plan.listeners if x.tls is not None and x.tls.client_ca is not None]
    if verified:
        per_port = [{"port": x.port, "tls": {"validation": _client_validation(plan, x)}} for x in verified]
        spec["tls"] = {"frontend": {"default": {}, "perPort": per_port}}
    return _object(request, "Gateway", label(request.name), spec)


def _client_validation(plan: Plan, listener: Listener) -> _Object:
    assert listener.tls is not None  # noqa: S101  # the caller checks
    mode = "AllowValidOnly" if listener.tls.client_required else "AllowInsecureFallback"
    reference = {"group": "", "kind": "ConfigMap", "name": _name(plan.name, listener.name, "clients")}
    return {"caCertificateRefs": [reference], "mode": mode}


def _listener(plan: Plan, listener: Listener) -> _Object:
    tls = listener.tls
    found: _Object = {"name": _name(listener.name), "port": listener.port, "protocol": "HTTP"}
    if tls is not None:
        found["protocol"] = "HTTPS" if listener.mode is Mode.L7 else "TLS"
        references = [{"name": _certificate_name(plan, listener, n)} for n, _ in enumerate(tls.certificates)]
        found["tls"] = {"mode": "Passthrough"} if tls.passthrough else {"certificateRefs": references}
    elif listener.mode is Mode.L4:
        found["protocol"] = str(listener.protocol).upper()
    return found | {"allowedRoutes": {"namespaces": {"from": "Same"}}}


def _certificate_name(plan: Plan, listener: Listener, number: int) -> str:
    return _name(plan.name, listener.name, f"tls{number + 1}")


def _route(request: Request, plan: Plan, route: Route) -> Iterator[_Object]:
    """The route as objects of the API: one for each 16 hosts, and none where the API has no word for its action. What
    guards a route has no word either, so its rules have neither filter nor backend, which answers 500: without them an
    open route for the same path would take its requests."""
    parents = [x for x in plan.listeners if any(rule.route == route.name for rule in _rules(x))]
    said = isinstance(route.action, (Forward, Redirect)) and not route_facts(route)
    if not parents or not (said or route.auth is not None):
        return
    rules = [rule for x in parents for rule in _rules(x) if rule.route == route.name]
    if parents[0].mode is Mode.L4:
        l4 = [rule for x in parents for rule in x.l4_rules if rule.route == route.name]
        names = list(dict.fromkeys(str(rule.sni) for rule in l4 if rule.sni is not None))
        kind = "UDPRoute" if parents[0].protocol is Protocol.UDP else "TCPRoute"
        kind = "TLSRoute" if parents[0].tls is not None else kind
        yield from _pieces(
            request, plan, route, parents, kind, names, [{"backendRefs": _backends(request, plan, route)}]
        )
        return
    l7 = [rule for x in parents for table in x.hosts for rule in table.rules if rule.route == route.name]
    hosts = list(dict.fromkeys(str(rule.host) for rule in l7 if rule.host is not None))
    kind, matches = _matches(plan, route, list(dict.fromkeys(rule.match for rule in l7)))
    if rules and matches:
        action = {} if route.auth is not None else _action(request, plan, route, kind)
        every = [{"matches": part, **action} for part in _groups(route, matches)]
        yield from _pieces(request, plan, route, parents, kind, hosts, every)


def _rules(listener: Listener) -> list[Any]:
    return [*listener.l4_rules, *(rule for table in listener.hosts for rule in table.rules)]


def _groups(route: Route, matches: list[_Object]) -> list[list[_Object]]:
    """Matches by rule. One that replaces a prefix has one match alone."""
    action = route.action
    prefix = action.prefix if isinstance(action, Redirect) else None
    if isinstance(action, Forward) and action.rewrite is not None:
        prefix = action.rewrite.prefix
    return _split(matches, 1 if prefix is not None else _MOST_MATCHES)


def _split(items: list[Any], most: int) -> list[list[Any]]:
    return [items[n : n + most] for n in range(0, len(items), most)]


def _pieces(
    request: Request,
    plan: Plan,
    route: Route,
    parents: Sequence[Listener],
    kind: str,
    hosts: list[str],
    rules: list[_Object],
) -> Iterator[_Object]:
    """Objects of at most 16 hosts and 16 rules each."""
    references = [{"name": label(request.name), "sectionName": _name(x.name)} for x in parents]
    pairs = product(_split(hosts, _MOST_HOSTS) or [[]], _split(rules, _MOST_RULES))
    for number, (some, part) in enumerate(pairs, 1):
        name = _name(plan.name, route.name, *([str(number)] if number > 1 else []))
        named = {"hostnames": some} if some else {}
        yield _object(request, kind, name, {"parentRefs": references, **named, "rules": part})


def _matches(plan: Plan, route: Route, written: list[Match]) -> tuple[str, list[_Object]]:
    """The kind of route and its matches, without those that the API has no word for."""
    calls = [_grpc_match(match) for match in written]
    if _is_grpc(plan, route) and all(each is not None for each in calls):
        return "GRPCRoute", [each for each in calls if each is not None]
    return "HTTPRoute", [each for match in written for each in _http_matches(match)]


def _is_grpc(plan: Plan, route: Route) -> bool:
    action = route.action
    targets = action.targets if isinstance(action, Forward) and action.rewrite is None else ()
    return bool(targets) and all(plan.pool(x.pool).protocol is PoolProtocol.GRPC for x in targets)


def _grpc_match(match: Match) -> _Object | None:
    """A match of gRPC calls by service and method; None where it is of anything else."""
    found = _GRPC_PATH.fullmatch(match.path.value)
    whole = isinstance(match.path, ExactPath) if found and found["method"] else isinstance(match.path, PrefixPath)
    headers = _named(match, Header)
    if headers is None or len(headers) != len(match.conditions) or not whole:
        return None
    if found is None:
        return None if match.path.value != "/" else {"headers": headers} if headers else {}
    method = {"service": found["service"]} | ({"method": found["method"]} if found["method"] else {})
    return {"method": {"type": "Exact", **method}} | ({"headers": headers} if headers else {})


def _http_matches(match: Match) -> Iterator[_Object]:
    kinds = {ExactPath: "Exact", PrefixPath: "PathPrefix"}
    path = {"type": kinds.get(type(match.path), "RegularExpression"), "value": match.path.value}
    headers, query = _named(match, Header), _named(match, Query)
    others = [x for x in match.conditions if not isinstance(x.subject, (Header, Query, Method))]
    methods = [x for x in match.conditions if isinstance(x.subject, Method)]
    if headers is None or query is None or others or len(methods) != bool(match.methods):
        return  # it has a condition that the API cannot ask
    found: _Object = {"path": path}
    if headers:
        found["headers"] = headers
    if query:
        found["queryParams"] = query
    for method in match.methods or ("",):
        yield found | ({"method": method} if method else {})


def _named(match: Match, subject: type[Header | Query]) -> list[_Object] | None:
    """The conditions on headers or parameters; None where one cannot be said."""
    found = []
    for each in match.on(subject):
        match each.operator:
            case Exact(value):
                found.append({"type": "Exact", "name": each.subject.name, "value": value})
            case Regex(value):
                found.append({"type": "RegularExpression", "name": each.subject.name, "value": f"^(?:{value})$"})
            case Present():
                found.append({"type": "RegularExpression", "name": each.subject.name, "value": ".+"})
            case _:
                return None
    return found


def _action(request: Request, plan: Plan, route: Route, kind: str) -> _Object:
    action = route.action
    filters = [*_edits("Request", route.request_headers), *_edits("Response", route.response_headers)]
    if route.cors is not None:
        filters.append({"type": "CORS", "cors": _cors(route.cors)})
    if isinstance(action, Redirect):
        return {"filters": [*filters, {"type": "RequestRedirect", "requestRedirect": _redirect(action)}]}
    assert isinstance(action, Forward)  # noqa: S101  # the caller checks
    if action.rewrite is not None:
        rewrite: _Object = {"hostname": action.rewrite.host} if action.rewrite.host is not None else {}
        rewrite |= _path(action.rewrite.path, action.rewrite.prefix)
        filters.append({"type": "URLRewrite", "urlRewrite": rewrite})
    for each in action.mirrors:
        fraction = {"numerator": round(each.percent * 100), "denominator": 10_000}
        backend = _reference(request, plan, each.pool)
        filters.append({"type": "RequestMirror", "requestMirror": {"backendRef": backend, "fraction": fraction}})
    found: _Object = {"filters": filters} if filters else {}
    found["backendRefs"] = _backends(request, plan, route)
    if action.timeouts.request and kind == "HTTPRoute":
        found["timeouts"] = {"request": f"{action.timeouts.request}ms"}
    return found


def _edits(side: str, edits: HeaderEdits) -> Iterator[_Object]:
    if edits:
        found: _Object = {}
        for word, pairs in (("set", edits.set), ("add", edits.add)):
            if pairs:
                found[word] = [{"name": name, "value": value} for name, value in pairs]
        if edits.remove:
            found["remove"] = list(edits.remove)
        yield {"type": f"{side}HeaderModifier", f"{side.lower()}HeaderModifier": found}


def _redirect(action: Redirect) -> _Object:
    values = {"scheme": action.scheme, "hostname": action.host, "port": action.port, "statusCode": action.status}
    path = None if action.path is None else str(action.path)
    return {key: value for key, value in values.items() if value is not None} | _path(path, action.prefix)


def _path(whole: str | None, prefix: str | None) -> _Object:
    if whole is not None:
        return {"path": {"type": "ReplaceFullPath", "replaceFullPath": whole}}
    return {} if prefix is None else {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix}}


def _cors(cors: Cors) -> _Object:
    values = {
        "allowOrigins": [f"{x.scheme}://*.{x.host}" if x.wildcard else x.text for x in cors.origins],
        "allowMethods": list(cors.methods),
        "allowHeaders": list(cors.headers),
        "exposeHeaders": list(cors.expose_headers),
        "allowCredentials": cors.credentials,
        "maxAge": cors.max_age,
    }
    return {key: value for key, value in values.items() if value}


def _backends(request: Request, plan: Plan, route: Route) -> list[_Object]:
    assert isinstance(route.action, Forward)  # noqa: S101  # the caller checks
    found = []
    for target in route.action.targets:
        reference = _reference(request, plan, target.pool) | {"weight": target.weight}
        edits = list(_edits("Request", target.request_headers))
        found.append(reference | ({"filters": edits} if edits else {}))
    return found


def _reference(request: Request, plan: Plan, name: str) -> _Object:
    """The Service of a pool: one of the cluster where its only endpoint is such a name."""
    pool = plan.pool(name)
    found = _SERVICE_NAME.fullmatch(pool.endpoints[0].host)
    if found and len(pool.endpoints) == 1:
        where = {} if found["namespace"] == request.namespace else {"namespace": found["namespace"]}
        return {"name": found["name"], **where, "port": pool.endpoints[0].port}
    return {"name": _name(request.name, name), "port": pool.endpoints[0].port}


def _backend(request: Request, pool: Pool) -> Iterator[_Object]:
    """A Service with its endpoints, and the policy of TLS to them."""
    name, first = _name(request.name, pool.name), pool.endpoints[0]
    found = _SERVICE_NAME.fullmatch(first.host)
    service = found["name"] if found and len(pool.endpoints) == 1 else name
    if service == name:
        port: _Object = {"name": "main", "port": first.port, "targetPort": first.port}
        if pool.protocol is not PoolProtocol.HTTP1:
            port["appProtocol"] = "kubernetes.io/h2c" if pool.tls is None else "https"
        kind: _Object = {} if first.is_ip else {"type": "ExternalName", "externalName": first.host}
        yield _object(request, "Service", name, kind | {"ports": [port]}, "v1")
        yield from _slices(request, pool, name)
    if pool.tls is not None:
        host = pool.tls.server_name or first.host
        validation: _Object = {"hostname": host, "wellKnownCACertificates": "System"}
        if pool.tls.ca is not None:
            reference = {"group": "", "kind": "ConfigMap", "name": f"{name}-ca"}
            validation = {"hostname": host, "caCertificateRefs": [reference]}
        target = {"group": "", "kind": "Service", "name": service}
        yield _object(request, "BackendTLSPolicy", name, {"targetRefs": [target], "validation": validation})


def _slices(request: Request, pool: Pool, name: str) -> Iterator[_Object]:
    """Addresses by family and port; those of weight 0 get nothing new, so they are left out."""
    groups: dict[tuple[str, int], list[str]] = {}
    for each in pool.endpoints:
        if each.is_ip and each.weight:
            groups.setdefault(("IPv6" if ":" in each.host else "IPv4", each.port), []).append(each.host)
    for (family, port), addresses in groups.items():
        labels = {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "lbgen"}
        yield {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": _meta(request, f"{name}-{family.lower()}-{port}", **labels),
            "addressType": family,
            "ports": [{"name": "main", "port": port}],
            "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
        }


def _kustomization(request: Request, plan: Plan, names: list[str]) -> _Object:
    """What is applied; certificates and authorities are made of the files."""
    options = {"disableNameSuffixHash": True}
    secrets = [
        {
            "name": _certificate_name(plan, listener, n),
            "type": "kubernetes.io/tls",
            "files": [f"tls.crt={pair.cert.path}", f"tls.key={pair.key.path}"],
            "options": options,
        }
        for listener in plan.listeners
        if listener.tls is not None
        for n, pair in enumerate(listener.tls.certificates)
    ]
    authorities = [
        {"name": name, "files": [f"ca.crt={file.path}"], "options": options}
        for name, file in _authorities(request, plan)
    ]
    found: _Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": request.namespace,
        "labels": [{"pairs": _meta(request, "")["labels"]}],
        "resources": names,
    }
    found |= {"secretGenerator": secrets} if secrets else {}
    return found | ({"configMapGenerator": authorities} if authorities else {})


def _authorities(request: Request, plan: Plan) -> Iterator[tuple[str, File]]:
    for listener in plan.listeners:
        if listener.tls is not None and listener.tls.client_ca is not None:
            yield _name(plan.name, listener.name, "clients"), listener.tls.client_ca
    for pool in plan.pools:
        if pool.tls is not None and pool.tls.ca is not None:
            yield f"{_name(request.name, pool.name)}-ca", pool.tls.ca


def _readme(request: Request, plan: Plan) -> RenderedFile:
    verdicts = [(feature, why, written(plan, feature)) for feature, why in unsaid(plan).items()]
    return text_file(
        "README.md",
        "gateway.md.j2",
        name=request.name,
        label=label(request.name),
        namespace=request.namespace,
        gateway_class=request.gateway_class,
        verdicts=verdicts,
        keys=[file.path for file in plan.files if file.secret],
    )
