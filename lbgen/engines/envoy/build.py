"""A plan as one envoy.yaml; where lbgen runs it, with the resources in files that Envoy watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.document import comment_on, origin
from lbgen.engines.envoy.comments import CONNECT_NOTE
from lbgen.engines.envoy.listeners import build_listener
from lbgen.engines.envoy.live import build_live
from lbgen.engines.envoy.run import FILE
from lbgen.engines.envoy.static import KEYS, NOTES, build_static
from lbgen.engines.envoy.upstreams import build_clusters, plan_clusters
from lbgen.engines.verbatim import entries, keys
from lbgen.engines.yaml_writer import dump

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan


def build(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files; the same plan gives the same bytes."""
    clusters = plan_clusters(plan)
    header = f"{origin(plan)}: Envoy {version}. Edit the topology, not this file."
    added = read_bootstrap_keys(plan)
    bootstrap = build_static(plan, version, node=plan.admin_port is not None or bool(added))
    listeners: list[Data] = [
        *(build_listener(plan, version, listener, clusters) for listener in plan.listeners),
        *entries(plan, "envoy", "listeners"),
    ]
    used: list[Data] = [
        *build_clusters(plan, clusters),
        *entries(plan, "envoy", "clusters"),
    ]
    if plan.admin_port is not None:  # where Envoy says what it made of a change
        bootstrap |= added
        return build_live(comment_on(bootstrap, NOTES), listeners, used, header)
    notes = {"clusters": CONNECT_NOTE} if any(len(each) > 1 for each in clusters.options.values()) else {}
    bootstrap["static_resources"] = comment_on({"listeners": listeners, "clusters": used}, notes)
    bootstrap |= added
    return (RenderedFile(FILE, *dump(comment_on(bootstrap, NOTES), header, anchors=True)),)


def read_bootstrap_keys(plan: Plan) -> dict[str, Data]:
    """The keys that the topology adds to the top level. Raises NotDataError."""
    return keys(plan, "envoy", "bootstrap", ("static_resources", *KEYS))
