"""What `up` is asked for with a topology of tiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.runtime.common.driver import UpOptions
    from lbgen.spec.load import Topology


class TiersRequest(Struct, frozen=True):
    """What `up` is asked for. A tier that names no engine gets the first of `engines` that can serve it; a replica that
    retires has `options.drain` seconds for its open connections."""

    topology: Topology
    replicas: Mapping[str, int]
    engines: tuple[Engine, ...]
    options: UpOptions


def with_name(topology: Topology, name: str | None) -> Topology:
    """Return `topology` under another name; None keeps its own."""
    return topology if name is None else replace(topology, model=topology.model.model_copy(update={"name": name}))
