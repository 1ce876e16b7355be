"""A stack whose routes change, and what answers on it."""

from __future__ import annotations

import http.client
import json
from typing import Any


def routed(name: str, port: int, *routes: str) -> dict[str, Any]:
    """A path prefix for each of `routes`, answered by a pool of its own; the rest by `app`."""
    made: dict[str, Any] = {
        "version": 1,
        "name": name,
        "listeners": {"web": {"port": port}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "rest", "forward": "app"}],
    }
    for each in routes:
        made["pools"][each] = {"endpoints": [{"address": "10.9.1.1:80"}]}
        made["routes"].insert(0, {"name": each, "match": [{"path": {"prefix": f"/{each}"}}], "forward": each})
    return made


def get(port: int, path: str) -> tuple[int, Any]:
    """The status, and the account of the stand-in that answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def pool_of(port: int, path: str) -> str:
    """The pool that answers a path."""
    return str(get(port, path)[1]["pool"])


def endpoint_of(port: int, path: str) -> str:
    """The endpoint that answers a path."""
    return str(get(port, path)[1]["name"])


def serves(port: int, path: str) -> bool:
    """Whether the pool `app` answers a path."""
    try:
        status, account = get(port, path)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return status == 200 and account["pool"] == "app"
