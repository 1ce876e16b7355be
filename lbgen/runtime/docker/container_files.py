"""The files in the folder of a container, written and read whether it runs or not."""

from __future__ import annotations

import hashlib
import io
import tarfile
import time
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.rendered import Rendered
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.helper_image import USER, WORK

if TYPE_CHECKING:
    from docker.models.containers import Container

_SECRET, _PLAIN = 0o400, 0o444


class File(Struct, frozen=True):
    """A file for the container's folder, or a link to a path in the container; only its user may read a secret."""

    content: bytes = b""
    secret: bool = False
    link: str = ""

    def digest(self) -> str:
        """A digest of its content."""
        return hashlib.sha256(self.content).hexdigest()[:24]


def rendered_files(rendered: Rendered) -> dict[str, File]:
    """The rendered files of an engine and the topology's own. EngineError LB424 when one of these is unreadable."""
    files = {name: File(text.encode()) for name, text in rendered.items()}
    for copy in rendered.copies:
        if copy.is_copied:
            files[copy.path] = File(copy.content(), copy.secret)
    return files


def archive(files: Mapping[str, File], *, root: bool, folders: Iterable[str] = ()) -> bytes:
    """A tar archive of `files` and `folders`, owned by the container's user, modified now."""
    owner, now = 0 if root else USER, time.time()
    buffer = io.BytesIO()
    # "." is the container's folder itself
    every = {str(parent) for name in files for parent in PurePosixPath(name).parents} | set(folders)
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in sorted(every):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.uid, entry.gid = (
                tarfile.DIRTYPE,
                0o755 if folder == "." else 0o700,
                owner,
                owner,
            )
            tar.addfile(entry)
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.uid, entry.gid, entry.mtime = len(file.content), owner, owner, now
            entry.mode = _SECRET if file.secret else _PLAIN
            if file.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
            tar.addfile(entry, io.BytesIO(file.content))
    return buffer.getvalue()


def put(handle: Container, files: Mapping[str, File], *, root: bool, folders: Iterable[str] = ()) -> None:
    """Write files and folders. Raises EngineError LB421."""
    with docker_errors(f"putting files into {handle.name}"):
        handle.put_archive(WORK, archive(files, root=root, folders=folders))


def read(handle: Container, name: str) -> bytes | None:
    """A file; None when it does not exist. Raises EngineError LB421."""
    return next(iter(read_folder(handle, name).values()), None)


def read_folder(handle: Container, name: str) -> dict[str, bytes]:
    """The files in a folder and below, by name; none when it does not exist. Raises EngineError LB421."""
    return {each: content for each, (content, _) in read_with_times(handle, name).items()}


def read_with_times(handle: Container, name: str) -> dict[str, tuple[bytes, float]]:
    """As `read_folder`, with the modification times, in seconds since the epoch."""
    from docker.errors import NotFound

    with docker_errors(f"reading {name} of {handle.name}"):
        try:
            parts, _ = handle.get_archive(f"{WORK}/{name}")
        except NotFound:
            return {}
        above = PurePosixPath(name).parent
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
            files = ((each, tar.extractfile(each)) for each in tar.getmembers() if each.isfile())
            return {str(above / each.name): (file.read(), each.mtime) for each, file in files if file is not None}
