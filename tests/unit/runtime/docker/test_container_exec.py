"""Commands in containers on a busy host: docker has no exit status yet, or has lost the output."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lbgen.diagnostics import EngineError
from lbgen.runtime.docker import container, inspect
from lbgen.runtime.docker.labels import Record, Role


class Api:
    """Gives these exit statuses, one after the other and the last one for ever, and this output."""

    def __init__(self, output: bytes, *codes: int | None) -> None:
        self.output, self.codes = output, list(codes)

    def exec_create(self, container: str, argv: list[str], **how: object) -> dict[str, str]:
        return {"Id": "1"}

    def exec_start(self, number: str) -> bytes:
        return self.output

    def exec_inspect(self, number: str) -> dict[str, int | None]:
        return {"ExitCode": self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]}


def handle(output: bytes, *codes: int | None) -> Any:  # stands in for a container
    host = {"NetworkMode": "container:1"}
    return SimpleNamespace(
        id="1", name="c", client=SimpleNamespace(api=Api(output, *codes)), attrs={"HostConfig": host}
    )


def test_it_waits_for_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    assert container.execute(handle(b"said", None, None, 0), ("nft",)) == "said"
    with pytest.raises(EngineError, match="said"):
        container.execute(handle(b"said", None, 1), ("nft",))
    monkeypatch.setattr(container, "_EXEC_SECONDS", 0.0)
    with pytest.raises(EngineError, match="said"):
        container.execute(handle(b"said", None), ("nft",))


@pytest.mark.parametrize(
    ("output", "codes", "answer"),
    [
        (b'{"/x": "y"}', (0,), {"/x": "y"}),
        (b"", (0,), None),
        (b"", (3,), None),
        (b'{"/x": "y"}', (None, 0), {"/x": "y"}),
    ],
)
def test_an_answer_without_its_text_is_none(output: bytes, codes: tuple[int | None, ...], answer: object) -> None:
    ports = SimpleNamespace(handle=handle(output, *codes), running=True, record=Record("s", Role.PORTS, ""), name="p")
    engine: Any = SimpleNamespace(handle=handle(b"", 0), record=Record("s", Role.ENGINE, ""), name="e")
    assert inspect.fetch_status(engine, [ports], ("/x",)) == answer  # type: ignore[list-item]  # stands in for one
