"""Routes in the plugin's configuration: the action and all policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.plan.model import Forward, Redirect, Respond
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.plan.model import HeaderEdits, Rewrite, Route, Target
    from lbgen.plan.policy import Access, Cors, Key, Retries


def find_used_pools(routes: Iterable[Route]) -> set[str]:
    """The names of all pools that receive requests or copies of these routes."""
    forwards = [route.action for route in routes if isinstance(route.action, Forward)]
    targets = {target.pool for forward in forwards for target in forward.targets}
    return targets | {mirror.pool for forward in forwards for mirror in forward.mirrors}


_POOL_AND_TIMES = {"name", "targets", "connect", "response", "idle"}


def build_route(route: Route) -> Tagged:
    """The route."""
    data = Tagged(route.field, {"name": route.name})
    match route.action:
        case Forward() as forward:
            _add_forward(data, forward)
        case Redirect() as redirect:
            data["redirect"] = _redirect(redirect)
        case Respond() as respond:
            data["respond"] = {
                "status": respond.status,
                "body": respond.body,
                "headers": [{"name": name, "value": value} for name, value in respond.headers],
            }
        case _:
            assert_never(route.action)
    if body := _body(route):
        data["body"] = body
    if route.request_headers:
        data["request"] = _edits(route.request_headers)
    if route.response_headers:
        data["reply"] = _edits(route.response_headers)
    _add_policies(data, route)
    return data


def asks_for_a_pool(route: Route, built: Tagged) -> bool:
    """Whether a route, built by `build_route`, asks for nothing but one pool."""
    action = route.action
    is_forward = isinstance(action, Forward) and len(action.targets) == 1 and not action.targets[0].request_headers
    return is_forward and built.keys() <= _POOL_AND_TIMES


def _add_forward(data: dict[str, Data], forward: Forward) -> None:
    times = forward.timeouts
    data["targets"] = [_target(target) for target in forward.targets]
    data["connect"] = times.connect
    data["response"] = times.response
    data["idle"] = times.idle
    if times.request:
        data["total"] = times.request
    if forward.rewrite is not None:
        data["rewrite"] = _rewrite(forward.rewrite)
    if forward.retries is not None:
        data["retries"] = _retries(forward.retries)
    if forward.mirrors:
        data["mirrors"] = [
            Tagged(mirror.field, {"pool": mirror.pool, "percent": round(mirror.percent * 100)})
            for mirror in forward.mirrors
        ]


def _target(target: Target) -> Tagged:
    data = Tagged(target.field, {"pool": target.pool, "weight": target.weight})
    if target.request_headers:
        data["request"] = _edits(target.request_headers)
    return data


def _retries(retries: Retries) -> dict[str, Data]:
    return {
        "max": retries.max,
        "connect": RetryCause.CONNECT_FAILURE in retries.causes,
        "reset": RetryCause.RESET in retries.causes,
        "timeout": RetryCause.TIMEOUT in retries.causes,
        "statuses": list(retries.statuses),
        "all": retries.all_methods,
        "budget": -1 if retries.budget is None else round(retries.budget * 100),
    }


def _body(route: Route) -> dict[str, Data]:
    data: dict[str, Data] = {}
    if route.max_body is not None:
        data = {"limited": True, "max": route.max_body}
    if isinstance(route.action, Forward):
        buffering = route.action.buffering
        if buffering.request:
            data["request"] = True
        if buffering.response:
            data["reply"] = True
    return data


def _add_policies(data: dict[str, Data], route: Route) -> None:
    if route.access is not None:
        data["access"] = build_access(route.access)
    if (rate := route.rate_limit) is not None:
        key = build_key(rate.key)
        data["rate"] = {"amount": rate.amount, "seconds": rate.seconds, "burst": rate.burst, "key": key}
    if (concurrency := route.concurrency) is not None:
        data["concurrency"] = {"max": concurrency.max, "key": build_key(concurrency.key)}
    if route.cors is not None:
        data["cors"] = _cors(route.cors)
    if route.compression is not None:
        data["compression"] = {"types": list(route.compression.types), "min": route.compression.min_size}


def build_access(access: Access) -> dict[str, Data]:
    """An access list."""
    data: dict[str, Data] = {"closed": access.allow is not None}
    if access.deny:
        data["deny"] = list(access.deny)
    if access.allow:
        data["allow"] = list(access.allow)
    return data


def build_key(key: Key) -> dict[str, Data]:
    """The key by which requests are counted or hashed."""
    return {"kind": str(key.kind), "name": key.name}


def _cors(cors: Cors) -> dict[str, Data]:
    origins: list[Data] = [
        {"any": True}
        if origin.any
        else {
            "scheme": f"{origin.scheme}://",
            "host": origin.host,
            "port": "" if origin.port is None else f":{origin.port}",
            "wildcard": origin.wildcard,
        }
        for origin in cors.origins
    ]
    return {
        "origins": origins,
        "methods": list(cors.methods),
        "headers": list(cors.headers),
        "expose": list(cors.expose_headers),
        "credentials": cors.credentials,
        "maxAge": -1 if cors.max_age is None else cors.max_age,
    }


def _rewrite(rewrite: Rewrite) -> dict[str, Data]:
    given = {"path": rewrite.path, "prefix": rewrite.prefix, "host": rewrite.host}
    return {key: value for key, value in given.items() if value is not None}


def _redirect(redirect: Redirect) -> dict[str, Data]:
    given = {
        "scheme": redirect.scheme,
        "host": redirect.host,
        "port": None if redirect.port is None else str(redirect.port),
        "path": redirect.path,
        "prefix": redirect.prefix,
    }
    return {"status": redirect.status, **{key: value for key, value in given.items() if value is not None}}


def _edits(edits: HeaderEdits) -> dict[str, Data]:
    data: dict[str, Data] = {}
    if edits.remove:
        data["remove"] = list(edits.remove)
    if edits.set:
        data["set"] = [{"name": name, "value": value} for name, value in edits.set]
    if edits.add:
        data["add"] = [{"name": name, "value": value} for name, value in edits.add]
    return data
