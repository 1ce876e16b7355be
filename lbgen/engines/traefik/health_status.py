"""Health of the endpoints of HTTP services, by Traefik's API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lbgen.engines.health import Condition, State
from lbgen.engines.traefik import names

if TYPE_CHECKING:
    from lbgen.engines.document import Data

STATUS_PATH = "/lbgen/endpoints"
_MANY = 100_000  # services in one page; the API gives 100 unless asked


def build_status_route() -> dict[str, dict[str, Data]]:
    """The `http` section with which Traefik answers STATUS_PATH on the admin port by its list of services."""
    to = f"${{1}}/api/http/services?per_page={_MANY}"
    name = "lbgen-endpoints"
    router: Data = {
        "entryPoints": [names.ADMIN],
        "rule": f"Path(`{STATUS_PATH}`)",
        "middlewares": [name],
        "service": "noop@internal",
    }
    redirect: Data = {"redirectRegex": {"regex": f"^(.*){STATUS_PATH}$", "replacement": to}}
    return {"routers": {name: router}, "middlewares": {name: redirect}}


def read_health(pools: Mapping[str, Sequence[str]], answer: str) -> dict[tuple[str, int], Condition]:
    """The condition of each endpoint, by pool and place. One of weight 0 is in no service."""
    try:
        services = json.loads(answer)
    except ValueError:
        return {}
    seen: dict[tuple[str, str], str] = {}
    for service in services:
        pool = str(service.get("name", "")).removesuffix("@file").partition(names.MARK)[0]
        for authority, status in _servers(service):
            if seen.get((pool, authority)) != "DOWN":
                seen[pool, authority] = status
    served = {pool for pool, _ in seen}
    return {
        (pool, place): _condition(seen.get((pool, authority)))
        for pool, authorities in pools.items()
        if pool in served
        for place, authority in enumerate(authorities)
    }


def _servers(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for url, status in (service.get("serverStatus") or {}).items():
        yield str(url).partition("://")[2].partition("/")[0], str(status)


def _condition(status: str | None) -> Condition:
    if status is None:
        return Condition(State.DRAINING)
    return Condition(State.UP) if status == "UP" else Condition(State.DOWN, None, "its checks fail")
