"""Executables -> the files of an image, without a daemon."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from lbgen.diagnostics import EngineError
from lbgen.runtime.docker import client, helper_image, images
from lbgen.runtime.docker.helper_image import USER, WORK, ArchiveError, ImageArchive, shared_libraries


def entries(bundle: ImageArchive) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(bundle.tar())) as archive:
        return {"/" + entry.name: entry for entry in archive.getmembers()}


def test_an_executable_comes_with_all_it_loads() -> None:
    shell = Path(shutil.which("sh") or "/bin/sh").resolve()
    bundle = ImageArchive.empty()
    bundle.add_program(shell, "/usr/local/sbin/sh")
    found = entries(bundle)
    assert found["/usr/local/sbin/sh"].mode & 0o111
    for library in shared_libraries(shell):
        assert found[str(library)].size == library.stat().st_size
    assert found[WORK].uid == USER
    assert found["/tmp"].mode == 0o1777  # noqa: S108  # inside the image
    assert all(not name.startswith("/root") and not name.startswith("/home") for name in found)


def test_the_same_files_give_the_same_bytes() -> None:
    one, two = ImageArchive.empty(), ImageArchive.empty()
    assert one.tar() == two.tar()


def test_a_script_loads_nothing(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert shared_libraries(script) == ()


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="nothing-here"):
        shared_libraries(tmp_path / "nothing-here")


def test_our_own_image_has_python_and_lbgen() -> None:
    found = helper_image.build_archive()
    assert helper_image.PYTHON in found.files
    assert f"{helper_image.SITE}/lbgen/__init__.py" in found.files
    assert f"{helper_image.SITE}/pydantic/__init__.py" in found.files
    assert any(name.endswith("/encodings/utf_8.py") for name in found.files)


def test_its_tag_is_stable() -> None:
    assert helper_image.tag() == helper_image.tag()


def test_no_daemon_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(EngineError) as found:
        client.connect()
    [diagnostic] = found.value.diagnostics
    assert diagnostic.code == "LB420"
    assert "--runtime local" in diagnostic.hint
    assert client.why_unavailable() == diagnostic


def test_the_variable_of_an_image() -> None:
    assert images.environment_variable("my-lb") == "LBGEN_MY_LB_IMAGE"
