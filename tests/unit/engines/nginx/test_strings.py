"""nginx: parameters of any length, and blocks."""

from __future__ import annotations

from hypothesis import given
from markupsafe import Markup

from lbgen.engines.nginx.definitions import Definitions
from lbgen.engines.nginx.strings import block
from lbgen.engines.text import Literal
from tests.unit.engines.nginx.test_quote import texts


@given(texts.map(lambda t: t * 300))
def test_long_texts_are_folded(text):
    made = Definitions()
    found = made.text(text)
    known = {m.name.text[1:]: m.default for m in made.defined().maps}

    def whole(part):
        if isinstance(part, Literal):
            return part.text
        return "".join(map(whole, known[part.text.strip("${}")].parts))

    assert "".join(map(whole, found.parts)) == text


def test_a_block_keeps_what_python_takes_for_line_breaks():
    body = Markup('            return 200 "a\u2028b";\n')
    assert block(8, Markup("location /"), body) == '        location / { return 200 "a\u2028b"; }'
