"""The helper image: this Python and lbgen, for stand-ins, the agent and nft."""

from __future__ import annotations

import hashlib
import marshal
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

from lbgen.runtime.docker.image_archive import ImageArchive

SITE = "/opt/lbgen"
_PACKAGE = Path(__file__).parents[2]
PYTHON = "/usr/local/bin/python3"
NFT = "/usr/local/sbin/nft"
WAIT_ARGV = (PYTHON, "-I", "-S", "-c", "import signal; signal.pause()")  # until it is killed
ENVIRONMENT = (("PYTHONPATH", SITE), ("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUNBUFFERED", "1"))
_HEADER = 16  # bytes of a file of byte code before the code
_UNCHECKED = b"\x01\x00\x00\x00"  # its flags: there is a hash of the source, and it counts for nothing
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


@cache  # this process runs the code that it has read
def tag() -> str:
    """A tag that changes with lbgen's code, so that an image is never older than the lbgen that uses it."""
    digest = hashlib.sha256(f"{sys.version}{_nft_path()}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build_archive() -> ImageArchive:
    """The interpreter, its library, lbgen and what lbgen imports. Raises BundleError, OSError."""
    found = ImageArchive.empty()
    interpreter = Path(sys.executable).resolve()
    found.add_program(interpreter, PYTHON)
    library = Path(sysconfig.get_path("stdlib"))
    found.add_tree(library, f"/usr/local/lib/{library.name}", skip=_UNNEEDED)
    for module in sorted((library / "lib-dynload").glob("*.so")):
        found.add_libraries(module)
    if (rules := _nft_path()) is not None:
        found.add_program(rules, NFT)
    found.add_tree(_PACKAGE, f"{SITE}/lbgen", skip=("__pycache__",))
    ours = metadata.distribution("lbgen")
    for name in ("METADATA", "entry_points.txt"):  # by which engines are found
        found.files[f"{SITE}/lbgen-{ours.version}.dist-info/{name}"] = (ours.read_text(name) or "").encode()
    # The SDK too, for the container that watches docker's events.
    for name in sorted(_requirements("lbgen") | _requirements("docker") | {"docker"}):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if path.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                found.files[f"{SITE}/{file.as_posix()}"] = path
                if path.suffix == ".so":
                    found.add_libraries(path)
    for place, origin in tuple(found.files.items()):
        if isinstance(origin, Path) and origin.suffix == ".py":
            compiled = _byte_code(origin)
            if compiled is not None:
                folder, _, name = place.rpartition("/")
                found.files[f"{folder}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc"] = compiled
    return found


def _nft_path() -> Path | None:
    """The path of nft, which switches traffic between engines; None when it is not on this host."""
    there = shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(there).resolve() if there is not None else None


def _byte_code(source: Path) -> bytes | None:
    """The byte code of a module, marked as unchecked: comparing it with its source takes seconds at each start. None
    when the file does not compile."""
    try:
        cached = Path(cache_from_source(str(source)))
        if cached.is_file() and cached.stat().st_mtime >= source.stat().st_mtime:
            code = cached.read_bytes()[_HEADER:]
        else:
            code = marshal.dumps(compile(source.read_bytes(), str(source), "exec", dont_inherit=True))
    except (OSError, SyntaxError, ValueError):
        return None
    return MAGIC_NUMBER + _UNCHECKED + source_hash(source.read_bytes()) + code


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
