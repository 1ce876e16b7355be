"""Engines and endpoints for clients: each is started once, and used by all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.place import Both, Places, name, sample, subjects

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" in metafunc.fixturenames:
        every = subjects("listener.l4.tcp" if metafunc.module.__name__.endswith("_l4") else "listener.l7")
        chosen = every if metafunc.config.getoption("--drills") else sample(every)
        metafunc.parametrize("subject", chosen, ids=name)


@pytest.fixture(scope="session")
def places() -> Iterator[Places]:
    made = Places()
    yield made
    made.close()


@pytest.fixture
def both(places: Places, subject) -> Both:
    """The endpoints directly, and through an engine."""
    return places.http(subject)
