"""The helper image: this Python and lbgen, for stand-ins, the agent and nft."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct, field

USER = 65534  # nobody
WORK = "/etc/lbgen"  # where configs go
_USERS = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
_CA = Path("/etc/ssl/certs/ca-certificates.crt")
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
_MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_UNWINDER = "libgcc_s.so.1"  # the C library loads it by name when a thread ends
_ASK_SECONDS = 20


class ArchiveError(Exception):
    """A file that the program needs is missing on this host."""


class ImageArchive(Struct):
    """The content of an image: `files` by path in it (a path on this host, or bytes), `folders` as (mode, owner)."""

    files: dict[str, Path | bytes] = field(default_factory=dict)
    folders: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> ImageArchive:
        """An archive with what every image needs: users, name lookup, certificate authorities, writable folders."""
        archive = cls()
        archive.files |= {
            "/etc/passwd": _USERS.encode(),
            "/etc/group": _GROUP.encode(),
            "/etc/nsswitch.conf": _NSSWITCH.encode(),
        }
        if _CA.is_file():
            archive.files[str(_CA)] = _CA
        archive.folders |= {"/tmp": (0o1777, 0), "/run": (0o755, 0), "/var/tmp": (0o1777, 0), WORK: (0o755, USER)}  # noqa: S108
        return archive

    def add_program(self, path: Path, place: str) -> None:
        """Add an executable (or module) and every library it loads. Raises BundleError."""
        self.files[place] = path
        self.add_libraries(path)

    def add_libraries(self, path: Path) -> None:
        """Add the libraries that `path` loads. Those outside the system's folders go beside its C library."""
        loaded = shared_libraries(path)
        home = next((str(each.parent) for each in loaded if each.name.startswith(("libc.so", "ld-musl"))), "/usr/lib")
        for library in loaded:
            system = str(library).startswith(("/lib", "/usr/lib"))
            self.files[str(library) if system else f"{home}/{library.name}"] = library
        unwinder = Path(home) / _UNWINDER
        if loaded and unwinder.is_file():
            self.files[str(unwinder)] = unwinder

    def add_tree(self, root: Path, place: str, *, skip: Iterable[str] = ()) -> None:
        """Add a folder and all below it, without the folders named in `skip`."""
        unwanted = set(skip)
        for folder, below, names in os.walk(root):
            below[:] = [name for name in below if name not in unwanted]  # these are not read at all
            there = Path(folder)
            inside = "/".join((place, *there.relative_to(root).parts))
            self.files |= {f"{inside}/{name}": there / name for name in names if (there / name).is_file()}

    def tar(self) -> bytes:
        """The image as a tar archive; the same files give the same bytes."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name in sorted(self._all_folders()):
                mode, owner = self.folders.get(name, (0o755, 0))
                _add(archive, name, None, mode, owner)
            for name in sorted(self.files):
                content = self.files[name]
                if isinstance(content, Path):
                    about = content.stat()
                    _add(
                        archive,
                        name,
                        content.read_bytes(),
                        0o755 if about.st_mode & 0o111 else 0o644,
                        at=about.st_mtime,
                    )
                else:
                    _add(archive, name, content, 0o644)
        return buffer.getvalue()

    def _all_folders(self) -> set[str]:
        found = set()
        for name in (*self.folders, *(str(Path(file).parent) for file in self.files)):
            here = Path(name)
            found |= {str(here), *(str(parent) for parent in here.parents)}
        return found - {"/"}


def _add(archive: tarfile.TarFile, name: str, content: bytes | None, mode: int, owner: int = 0, at: float = 0) -> None:
    entry = tarfile.TarInfo(name.lstrip("/"))
    entry.mode, entry.uid, entry.gid = mode, owner, owner
    entry.mtime = int(at)  # by which Python tells whether byte code is that of its source
    if content is None:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    else:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))


def shared_libraries(path: Path) -> tuple[Path, ...]:
    """The shared libraries and the loader of an executable or module; none for a static one. Raises ArchiveError."""
    done = subprocess.run(  # noqa: S603 - a path we found ourselves
        ["ldd", str(path)],  # noqa: S607 - the system's own
        capture_output=True,
        text=True,
        timeout=_ASK_SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    if "not a dynamic executable" in said or "statically linked" in said:
        return ()
    if missing := _MISSING.findall(said):
        raise ArchiveError(f"{path} needs {', '.join(missing)}, not found on this host")
    if done.returncode:
        raise ArchiveError(f"ldd {path}: {said.strip()}")
    return tuple(Path(found) for found in dict.fromkeys(_LIBRARY.findall(said)))


SITE = "/opt/lbgen"
_PACKAGE = Path(__file__).parents[2]
PYTHON = "/usr/local/bin/python3"
NFT = "/usr/local/sbin/nft"
WAIT_ARGV = (PYTHON, "-I", "-S", "-c", "import signal; signal.pause()")  # until it is killed
ENVIRONMENT = (("PYTHONPATH", SITE), ("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUNBUFFERED", "1"))
_UNNEEDED = (
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
    digest = hashlib.sha256(f"{sys.version}{_nft_path()}{find_spec('acme') is not None}".encode())
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
    found.add_tree(_PACKAGE, f"{SITE}/lbgen")
    ours = metadata.distribution("lbgen")
    for name in ("METADATA", "entry_points.txt"):  # by which engines are found
        found.files[f"{SITE}/lbgen-{ours.version}.dist-info/{name}"] = (ours.read_text(name) or "").encode()
    # The SDK too, for the container that watches docker's events, and what orders certificates.
    optional = {"docker", *(("acme",) if find_spec("acme") is not None else ())}
    for name in sorted(_requirements("lbgen").union(optional, *map(_requirements, optional))):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if path.is_file() and ".." not in file.parts:
                found.files[f"{SITE}/{file.as_posix()}"] = path
                if path.suffix == ".so":
                    found.add_libraries(path)
    return found


def _nft_path() -> Path | None:
    """The path of nft, which switches traffic between engines; None when it is not on this host."""
    there = shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(there).resolve() if there is not None else None


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
