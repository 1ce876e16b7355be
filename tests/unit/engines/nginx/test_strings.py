"""nginx: parameters of any length."""

from __future__ import annotations

from hypothesis import given

from lbgen.engines.nginx.strings import Texts
from lbgen.engines.text import Literal
from tests.unit.engines.nginx.test_quote import texts


@given(texts.map(lambda t: t * 300))
def test_long_texts_are_folded(text):
    made = Texts()
    found = made.of(text)
    known = {m.name.text[1:]: m.default for m in made.constants}

    def whole(part):
        if isinstance(part, Literal):
            return part.text
        return "".join(map(whole, known[part.text.strip("${}")].parts))

    assert "".join(map(whole, found.parts)) == text
