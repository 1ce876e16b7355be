"""The plugin: its source files below Traefik's working directory, and its routes on the admin port."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.traefik import names
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_MANIFEST = "traefik-manifest.yml"


@cache
def load_sources() -> tuple[RenderedFile, ...]:
    """The plugin's files, sorted by name; they are the same for every plan."""
    root = folder("templates") / "traefik" / "plugin"
    found = []
    for path in sorted(root.iterdir(), key=lambda p: p.name):
        name = ".traefik.yml" if path.name == _MANIFEST else path.name
        if path.suffix in (".go", ".mod", ".yml"):
            text = path.read_text(encoding="utf-8")
            found.append(RenderedFile(f"plugins-local/src/{names.MODULE}/{name}", text))
    return tuple(found)


def build_admin_route(name: str, path: str, asked: dict[str, Data]) -> dict[str, Data]:
    """The `http` section with which the plugin, configured by `asked`, answers `path` on the admin port."""
    router: Data = {
        "entryPoints": [names.ADMIN],
        "rule": f"Path(`{path}`)",
        "middlewares": [name],
        "service": "noop@internal",
    }
    return {"routers": {name: router}, "middlewares": {name: {"plugin": {names.PLUGIN: asked}}}}
