"""Collect executables of this host and the libraries that they load into the archive of a small image."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable
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
                    executable = bool(content.stat().st_mode & 0o111)
                    _add(archive, name, content.read_bytes(), 0o755 if executable else 0o644)
                else:
                    _add(archive, name, content, 0o644)
        return buffer.getvalue()

    def _all_folders(self) -> set[str]:
        found = set()
        for name in (*self.folders, *(str(Path(file).parent) for file in self.files)):
            here = Path(name)
            found |= {str(here), *(str(parent) for parent in here.parents)}
        return found - {"/"}


def _add(archive: tarfile.TarFile, name: str, content: bytes | None, mode: int, owner: int = 0) -> None:
    entry = tarfile.TarInfo(name.lstrip("/"))
    entry.mode, entry.uid, entry.gid = mode, owner, owner
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
