"""This Python with lbgen in it -> the files of our own image, which runs stand-ins and the agent."""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.runtime.docker.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = "/opt/lbgen"
_PACKAGE = Path(__file__).parents[2]
PYTHON = "/usr/local/bin/python3"
ENVIRONMENT = (("PYTHONPATH", SITE), ("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUNBUFFERED", "1"))
_UNNEEDED = (
    "__pycache__",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "ensurepip",
    "turtledemo",
    "site-packages",
    "dist-packages",
)


def tag() -> str:
    """Changes with the code of lbgen, so that an image is never older than the lbgen that uses it."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def bundle() -> Bundle:
    """The interpreter, its library, lbgen and what lbgen imports. Raises BundleError, OSError."""
    found = Bundle.empty()
    interpreter = Path(sys.executable).resolve()
    found.program(interpreter, PYTHON)
    library = Path(sysconfig.get_path("stdlib"))
    found.tree(library, f"/usr/local/lib/{library.name}", skip=_UNNEEDED)
    for module in sorted((library / "lib-dynload").glob("*.so")):
        found.libraries(module)
    found.tree(_PACKAGE, f"{SITE}/lbgen", skip=("__pycache__",))
    for name in sorted(_requirements("lbgen")):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if path.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                found.files[f"{SITE}/{file.as_posix()}"] = path
                if path.suffix == ".so":
                    found.libraries(path)
    return found


def _requirements(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Names of the distributions that `name` needs, without extras."""
    found: set[str] = set()
    for wanted in _required(name):
        if wanted not in seen | found:
            found |= {wanted} | _requirements(wanted, seen | found | {wanted})
    return found


def _required(name: str) -> Iterator[str]:
    for line in metadata.requires(name) or ():
        requirement, _, marker = line.partition(";")
        if "extra" in marker:
            continue
        wanted = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            metadata.distribution(wanted)
        except metadata.PackageNotFoundError:
            continue  # of another Python or system
        yield wanted
