"""Only typed values reach a text config, and every line knows where it came from."""

from __future__ import annotations

import pytest
from jinja2 import DictLoader, UndefinedError
from msgspec import Struct

from lbgen.engines.text import Atom, Literal, environment, render
from tests.support.views import check_view

ORIGIN = Atom("routes[2]")


class View(Struct, frozen=True):
    name: object
    origin: Atom = ORIGIN


def env(text: str):
    return environment(DictLoader({"t": text}), {"word": lambda s: f"<{s}>"})


def test_atoms_literals_and_numbers_are_printed():
    class Three(Struct, frozen=True):
        a: Atom
        b: Literal
        c: int

    text, _ = render(env("{{ v.a }} {{ v.b }} {{ v.c }}\n"), "t", Three(Atom("x&y"), Literal("<&>"), 7))
    assert text == "x&y <<&>> 7\n"


PLACES = [
    "{{ v.name }}",
    "{% for x in [v.name] %}{{ x }}{% endfor %}",
    "{% set x = v.name %}{{ x }}",
    "{% set x %}{{ v.name }}{% endset %}{{ x }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(v.name) }}",
    '{{ "a" ~ v.name }}',
    "{{ v.name or v.name }}",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hostile", ["bare", "<b>", "", True, None, 1.5, ["x"], b"x", object()])
def test_everything_else_raises(place, hostile):
    with pytest.raises(TypeError):
        env(place).get_template("t").render(v=View(hostile))


def test_everything_else_raises_in_an_included_template():
    parts = DictLoader({"t": '{% include "u" %}', "u": "{{ v.name }}"})
    with pytest.raises(TypeError):
        environment(parts, {}).get_template("t").render(v=View("bare"))


def test_undefined_raises():
    with pytest.raises(UndefinedError, match="no attribute 'nope'"):
        env("{{ v.nope }}").get_template("t").render(v=View(Atom("x")))
    with pytest.raises(UndefinedError, match="'nope' is undefined"):
        env("{{ nope }}").get_template("t").render(v=View(Atom("x")))


@pytest.mark.parametrize("template", ["{{ v.name|safe }}", "{{ v.name|join }}", "{{ v.name|upper }}"])
def test_filters_are_an_allow_list(template):
    with pytest.raises(Exception, match="No filter named"):
        env(template).get_template("t")


def test_a_bare_string_in_a_view_is_found_with_its_place():
    with pytest.raises(TypeError, match=r"view\.name: str"):
        check_view(View("bare"))


def test_lines_know_their_origin():
    text, origins = render(env("top\n{{ at(v.origin) }}\na\nb\n{{ at() }}\nend\n"), "t", View(Atom("x")))
    assert text == "top\na\nb\nend\n"
    assert origins == ("", "routes[2]", "routes[2]", "")


@pytest.mark.parametrize("text", ["a\nb", "a\x00", "\x02routes[0]\x03"])
def test_an_atom_holds_no_control_character(text):
    with pytest.raises(ValueError, match="control character"):
        Atom(text)


def test_an_atom_of_a_grammar():
    assert Atom.of("[a-z]+", "abc").text == "abc"
    with pytest.raises(ValueError, match="not of the form"):
        Atom.of("[a-z]+", "abc;")
