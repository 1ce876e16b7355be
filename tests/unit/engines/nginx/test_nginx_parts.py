"""nginx: quoting, names, conditions and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.engines.api import Binary
from lbgen.engines.nginx import ENGINE, matching, quote
from lbgen.engines.nginx.names import Names
from lbgen.engines.nginx.run import judge
from lbgen.engines.nginx.strings import Texts
from lbgen.engines.text import Literal
from lbgen.plan.model import Listener, Mode, Plan, Protocol, ValueKind, ValueMatch

texts = st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from('"\\$${}\n\t;#'), max_size=60)


def read(token: str) -> str:
    """What nginx makes of a token in double quotes."""
    assert token[0] == token[-1] == '"'
    out = re.sub(r'\\(["\'\\tn])', lambda m: {"t": "\t", "n": "\n"}.get(m[1], m[1]), token[1:-1])
    return out.replace("${dollar}", "$")


@given(texts)
def test_text_comes_back(text):
    assert read(f'"{quote.part(text)}"') == text


@given(texts)
def test_word_comes_back(text):
    quoted = quote.word(text)
    assert quoted == text if not quoted.startswith('"') else read(quoted) == text or "${dollar}" in text


@given(st.text(max_size=400))
def test_pieces_make_up_the_whole(text):
    parts = quote.pieces(text, 40)
    assert "".join(parts) == text
    assert all(quote.size(part) <= 40 for part in parts)


@given(texts.map(lambda t: t * 300))
def test_long_texts_are_folded(text):
    made = Texts()
    found = made.of(text)
    known = {m.name.text[1:]: m.default for m in made.constants}

    def whole(part):
        if isinstance(part, Literal):
            return part.text
        return "".join(map(whole, known[part.text[2:-1]].parts))

    assert "".join(map(whole, found.parts)) == text


@pytest.mark.parametrize(
    ("key", "quoted"), [("default", '"\\default"'), ("~x", '"\\~x"'), ("api-v1", "api-v1"), ("", '""')]
)
def test_keys_that_maps_would_take_for_words_of_their_own(key, quoted):
    assert quote.key(key) == quoted


@pytest.mark.parametrize("text", ['a"b', "a\\\\b", "é", "a\nb"])
def test_regex_that_quoting_would_change(text):
    with pytest.raises(ValueError, match="quoting"):
        quote.regex(text)


def test_names_are_unique_variables():
    names = Names()
    made = [names.variable("route", word) for word in ("api.v1", "api-v1", "", "Ünder", "x" * 90, "x" * 90)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch("[a-z0-9_]+", name) for name in made)
    assert made[0] == "route_api_v1"


def holds(regex: str, value: str) -> bool:
    return re.match(regex.encode(), value.encode() + b"\n") is not None


@pytest.mark.parametrize(
    ("wanted", "value", "result"),
    [
        (ValueMatch(ValueKind.EXACT, "b"), "a, b", True),
        (ValueMatch(ValueKind.EXACT, "b"), "a ,b ,c", True),
        (ValueMatch(ValueKind.EXACT, "b"), "ab", False),
        (ValueMatch(ValueKind.EXACT, "a, b"), "a, b", True),
        (ValueMatch(ValueKind.EXACT, "a, b"), "a, b, c", False),
        (ValueMatch(ValueKind.REGEX, "b+"), "a, bb", True),
        (ValueMatch(ValueKind.REGEX, "a.*c"), "a, b, c", True),
        (ValueMatch(ValueKind.REGEX, "[^a]"), "a", False),
        (ValueMatch(ValueKind.REGEX, ".*"), "", False),
        (ValueMatch(ValueKind.PRESENT), "", False),
        (ValueMatch(ValueKind.PRESENT), ", ", False),
        (ValueMatch(ValueKind.PRESENT), ",", True),
        (ValueMatch(ValueKind.PRESENT), "x", True),
    ],
)
def test_headers(wanted, value, result):
    assert holds("^" + matching.header_regex(wanted), value) is result


@pytest.mark.parametrize(
    ("wanted", "sent", "result"),
    [
        (ValueMatch(ValueKind.EXACT, "a"), "=a", True),
        (ValueMatch(ValueKind.EXACT, "a"), '="a" ', True),
        (ValueMatch(ValueKind.EXACT, '"a"'), '=""a""', True),
        (ValueMatch(ValueKind.EXACT, '"a"'), '="a"', False),
        (ValueMatch(ValueKind.EXACT, "a;b"), "=a;b", False),
        (ValueMatch(ValueKind.REGEX, ".+"), '=""', False),
        (ValueMatch(ValueKind.REGEX, "a."), "=a ", False),
        (ValueMatch(ValueKind.PRESENT), '=""', False),
        (ValueMatch(ValueKind.PRESENT), "", False),
        (ValueMatch(ValueKind.PRESENT), '="', True),
    ],
)
def test_cookies(wanted, sent, result):
    assert holds("^" + matching.cookie_regex(wanted), sent) is result


def test_judge_counts_errors_only():
    assert judge(0, "nginx: [warn] 4096 worker_connections exceed open file resource limit: 1024", {}) == ()
    assert judge(1, 'x\n2026/11/21 10:00:00 [emerg] 1#1: unknown directive "x" in nginx.conf:3\n', {}) == (
        'unknown directive "x" in nginx.conf:3',
    )
    assert judge(127, "", {}) == ("nginx -t ended with 127",)


def test_the_stream_module_is_loaded_where_it_is_a_file(tmp_path: Path):
    listener = Listener("db", "127.0.0.1", 1, Mode.L4, Protocol.TCP, "listeners.db")
    made = Plan("t", (listener,), (), ())
    built_in = ENGINE.process(made, Binary(Path("/x/nginx"), "1.31.3"), tmp_path)
    assert built_in.argv[-1] == "daemon off;"
    modules = (Path("/m/ngx_http_js_module.so"), Path("/m/ngx_stream_module.so"))
    binary = Binary(Path("/x/nginx"), "1.22.1", modules)
    assert ENGINE.process(made, binary, tmp_path).argv[-1] == "load_module /m/ngx_stream_module.so; daemon off;"
    assert "load_module" in " ".join(ENGINE.check(made, binary, tmp_path).argv)


def test_scripts_are_loaded_where_their_module_is_a_file(tmp_path: Path):
    listener = Listener("web", "127.0.0.1", 1, Mode.L7, Protocol.TCP, "listeners.web")
    made = Plan("t", (listener,), (), ())
    official = Binary(Path("/usr/sbin/nginx"), "1.31.3", tuple(Path(x) for x in ENGINE.images.modules["1.31"]))
    argv = ENGINE.process(made, official, tmp_path).argv
    assert argv[-1] == "load_module /usr/lib/nginx/modules/ngx_http_js_module.so; daemon off;"
    assert ENGINE.process(made, Binary(Path("/x/nginx"), "1.31.3"), tmp_path).argv[-1] == "daemon off;"


def test_a_missing_script_module_is_named():
    told = judge(1, 'x\n[emerg] 1#1: unknown directive "js_engine" in nginx.conf:9\n', {})
    assert "nginx-module-njs" in told[-1]
