"""What is kept of a stack of containers: read back as it was, and never from what is not this lbgen's own data."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime.common import saved
from lbgen.runtime.docker import kept
from lbgen.runtime.docker.kept import Kept
from lbgen.runtime.standins.plan import Cast
from lbgen.runtime.standins.server import StandIn
from tests.support.plans import examples

EXAMPLES = examples()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))


def made(example: str = "shop") -> Kept:
    cast = Cast((StandIn("pools.a.endpoints[0]", "a", "10.0.0.1", 80),), {"pools.a.endpoints[0]": 80}, Path("/x"))
    return Kept(EXAMPLES[example], cast, ("all",), backends=True)


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_comes_back(example: str) -> None:
    wanted = made(example)
    wanted.write()
    assert kept.read(wanted.plan.name) == wanted
    assert (kept.folder(wanted.plan.name) / "kept").stat().st_mode & 0o777 == 0o600


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/evil",)


def test_nothing_but_data_is_made_of_it() -> None:
    wanted = made()
    wanted.write()
    file = kept.folder(wanted.plan.name) / "kept"
    for content in (Evil(), ("lbgen.runtime.docker.kept", Evil()), lbgen.load):
        file.write_bytes(file.read_bytes().splitlines(keepends=True)[0] + pickle.dumps(content))
        assert kept.read(wanted.plan.name) is None
    assert not Path("/tmp/evil").exists()  # noqa: S108


def test_another_lbgens_or_a_strangers_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = made()
    wanted.write()
    name, file = wanted.plan.name, kept.folder(wanted.plan.name) / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(saved, "_version", lambda: b"another\n")
        assert kept.read(name) is None
    file.chmod(0o620)
    assert kept.read(name) is None
    file.chmod(0o600)
    assert kept.read(name) == wanted
    elsewhere = file.rename(file.with_name("elsewhere"))
    file.symlink_to(elsewhere)
    assert kept.read(name) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_read() -> None:
    wanted = made()
    wanted.write()
    os.chown(kept.folder(wanted.plan.name) / "kept", 65534, 65534)
    assert kept.read(wanted.plan.name) is None


def test_what_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EngineError, match=r"LB408: .*/kept: No space left on device; free some space"):
        made().write()
    monkeypatch.undo()
