"""The plugin's source -> the files Traefik wants below its working directory, and the middlewares that use it."""

from __future__ import annotations

from functools import cache

from lbgen.engines.api import RenderedFile
from lbgen.engines.traefik import names
from lbgen.resources import folder

_MANIFEST = "traefik-manifest.yml"


@cache
def sources() -> tuple[RenderedFile, ...]:
    """The plugin's files, sorted by name; they are the same for every plan."""
    root = folder("templates") / "traefik" / "plugin"
    found = []
    for path in sorted(root.iterdir(), key=lambda p: p.name):
        name = ".traefik.yml" if path.name == _MANIFEST else path.name
        if path.suffix in (".go", ".mod", ".yml"):
            text = path.read_text(encoding="utf-8")
            found.append(RenderedFile(f"plugins-local/src/{names.MODULE}/{name}", text))
    return tuple(found)
