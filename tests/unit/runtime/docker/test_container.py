"""A container that docker does not remove at once is removed a moment later."""

from __future__ import annotations

from typing import Any

import pytest
from docker.errors import APIError, NotFound
from requests import Response

from lbgen.runtime.docker import container


class Made:
    """Answers removals with these statuses, one after the other; 0 = done."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)

    def remove(self, **how: object) -> None:
        assert how == {"force": True, "v": True}
        status = self.statuses.pop(0)
        if status:
            answer = Response()
            answer.status_code = status
            raise (NotFound if status == 404 else APIError)("directory not empty", answer)


def made(*statuses: int) -> Any:  # stands in for a container
    return Made(*statuses)


@pytest.mark.parametrize("statuses", [(0,), (500, 0), (500, 409, 404), (404,)])
def test_it_is_gone_in_the_end(statuses: tuple[int, ...]) -> None:
    there = made(*statuses)
    container.remove(there)
    assert not there.statuses


def test_what_will_not_go_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_REMOVED_SECONDS", 0.0)
    with pytest.raises(APIError):
        container.remove(made(500, 500))


def test_other_errors_are_told_at_once() -> None:
    there = made(403, 0)
    with pytest.raises(APIError):
        container.remove(there)
    assert there.statuses == [0]
