"""lbgen's own Dockerfile, built without a registry: its base image is this host's Python."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.runtime.docker import client
from lbgen.runtime.docker.helper_image import ImageArchive
from tests.support.daemon import IN_CONTAINERS

if TYPE_CHECKING:
    from docker import DockerClient

ROOT = Path(__file__).parents[2]
CONTEXT = ("Dockerfile", "pyproject.toml", "README.md", "LICENSE", "lbgen", "templates", "profiles", "examples")
PYTHON = "/usr/local/bin/python3"
BUILD = ("hatchling", "hatch-fancy-pypi-readme")
OFFLINE = (
    "PIP_NO_INDEX=1",
    "PIP_NO_BUILD_ISOLATION=0",
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    "PIP_BREAK_SYSTEM_PACKAGES=1",  # Debian's Python, which may be the one here, asks for it
    "PATH=/usr/local/bin:/usr/local/local/bin:/bin",  # Debian puts commands into the second
)
pytestmark = [*IN_CONTAINERS, pytest.mark.packaging]


def base_image() -> bytes:
    """Python with pip, hatchling and what lbgen needs, but not lbgen; a shell and rm for the Dockerfile's steps."""
    found = ImageArchive.empty()
    found.add_program(Path(sys.executable).resolve(), PYTHON)
    library = Path(sysconfig.get_path("stdlib"))
    place = f"/usr/local/lib/{library.name}"
    found.add_tree(library, place, skip=("__pycache__", "test", "tests", "site-packages", "dist-packages"))
    for module in sorted((library / "lib-dynload").glob("*.so")):
        found.add_libraries(module)
    installed = f"{place}/{packages_folder()}"
    for name in sorted({"pip", *BUILD, *(x for y in ("lbgen", *BUILD) for x in required(y))}):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if path.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                found.files[f"{installed}/{file.as_posix()}"] = path
                if path.suffix == ".so":
                    found.add_libraries(path)
    for tool in ("sh", "rm"):
        found.add_program(Path(f"/bin/{tool}").resolve(), f"/bin/{tool}")
    return found.tar()


def packages_folder() -> str:
    """The folder where this Python looks for what is installed: Debian's is dist-packages."""
    ask = (Path(sys.executable).resolve(), "-Ic", "import site; print(site.getsitepackages()[0])")
    return Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()).name


def required(name: str) -> set[str]:
    """What a distribution needs here, and what that needs."""
    from packaging.requirements import Requirement

    names: set[str] = set()
    for text in metadata.requires(name) or ():
        needed = Requirement(text)
        if (needed.marker is None or needed.marker.evaluate({"extra": ""})) and needed.name not in names:
            names |= {needed.name} | required(needed.name)
    return names


def context(base: str) -> io.BytesIO:
    """What the Dockerfile copies, as `docker build` sends it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in CONTEXT:
            archive.add(ROOT / name, name, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    buffer.seek(0)
    return buffer


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    daemon: DockerClient = client.connect()
    base, own = f"lbgen-test-base:{os.getpid()}", f"lbgen-test-own:{os.getpid()}"
    changes = [f"ENV {each}" for each in OFFLINE]
    daemon.api.import_image_from_data(base_image(), *base.split(":"), changes=changes)
    try:
        steps = daemon.api.build(
            fileobj=context(base), custom_context=True, tag=own, buildargs={"BASE": base}, rm=True, decode=True
        )
        said = "".join(str(step.get("stream", step.get("error", ""))) for step in steps)
        assert "Successfully tagged" in said, said
        yield own
    finally:
        for name in (own, base):
            if daemon.images.list(name):
                daemon.images.remove(name, force=True)


def run(image: str, *words: str) -> str:
    """lbgen in a container: without rights or a network, its file system and the topologies only to be read."""
    return (
        client.connect()
        .containers.run(
            image,
            list(words),
            remove=True,
            read_only=True,
            cap_drop=["ALL"],
            network_mode="none",
            security_opt=["no-new-privileges"],
            volumes={str(ROOT / "examples"): {"bind": "/work", "mode": "ro"}},
            stderr=True,
        )
        .decode()
    )


@pytest.mark.drill
def test_check_and_render_run_without_rights(image: str) -> None:
    assert "no errors" in run(image, "check", "shop/topology.yaml")
    assert "server_name" in run(image, "render", "shop/topology.yaml", "-e", "nginx")
    assert "Usage: lbgen" in run(image)
    found = client.connect().images.get(image)
    assert found.attrs["Config"]["User"] == "65534:65534"
