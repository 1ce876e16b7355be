"""A verdict that names other engines as able names those that are."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.api import Level, engine, engine_names, engines
from lbgen.plan.features import all_features

ABLE = re.compile(r"; ([A-Za-z, ]+) can$")


@pytest.mark.parametrize("name", engine_names())
def test_engines_that_a_refusal_names_can(name: str) -> None:
    titles = {each.title: each for each in engines().values()}
    wrong = []
    for feature in all_features():
        verdict = engine(name).verdict(feature, engine(name).versions[0])
        if verdict.level is not Level.REFUSED or (found := ABLE.search(verdict.note)) is None:
            continue
        for title in re.split(", | and ", found[1]):
            other = titles[title]
            if other.verdict(feature, other.versions[0]).level is Level.REFUSED:
                wrong.append(f"{feature}: {title}")
    assert not wrong
