"""The plugin: a middleware for what Traefik's own cannot do, and its source files below Traefik's working directory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data

PLUGIN = "lbgen"
_MODULE = "lbgen.local/lbgen"
_MANIFEST = "traefik-manifest.yml"


def use_plugin(job: str, settings: Data) -> dict[str, Data]:
    """The middleware that does one job of the plugin, see plugin.go."""
    return {"plugin": {PLUGIN: {job: settings}}}


def build_experimental() -> dict[str, Data]:
    """The section of the static configuration that loads the plugin, without which requests are not served."""
    return {"abortOnPluginFailure": True, "localPlugins": {PLUGIN: {"moduleName": _MODULE}}}


@cache
def load_sources() -> tuple[RenderedFile, ...]:
    """The plugin's files, sorted by name; they are the same for every plan."""
    found = []
    for path in sorted((folder("templates") / "traefik" / "plugin").iterdir(), key=lambda p: p.name):
        if path.suffix in (".go", ".mod", ".yml"):
            name = ".traefik.yml" if path.name == _MANIFEST else path.name
            found.append(RenderedFile(f"plugins-local/src/{_MODULE}/{name}", path.read_text(encoding="utf-8")))
    return tuple(found)
