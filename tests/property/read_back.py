"""Rendered files read as their engine reads them: trees of words, in which a text of a topology is one leaf."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

Tree = Any  # text, number, None, or a list of trees
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # written in Python it is slower than all the rest
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}


def tree(engine: str, name: str, text: str) -> Tree:
    """What is in a file, by the rules of the engine or of the file's kind."""
    if name.endswith(".json"):
        return _plain(json.loads(text))
    if name.endswith((".yaml", ".yml")):
        read = _templated(text) if engine == "traefik" and name.startswith("dynamic/") else text
        data = _plain(yaml.load(read, Loader=_LOADER))  # noqa: S506  # a safe one
        return _with_rules(data) if engine == "traefik" else data
    if name.endswith((".cors.lua", ".rules.lua")):
        return _lua(text)
    if engine == "nginx" and name.endswith(".conf"):
        return nginx(text)
    if name.endswith(".cfg"):
        return haproxy(text)
    if name.startswith("maps/"):
        return haproxy_map(text)
    return text.split("\n")


def nginx(text: str) -> list[Tree]:
    """Directives as lists of words, a block as a list at the end. ngx_conf_read_token: a quote or a comment begins
    where a word may begin, `${` is part of a word, a backslash takes the next character."""
    return _nginx_block(text, 0, whole=True)[0]


def _nginx_block(text: str, at: int, *, whole: bool = False) -> tuple[list[Tree], int]:
    found: list[Tree] = []
    words: list[Tree] = []
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
        elif char == "#":
            at = text.find("\n", at)
        elif char == ";":
            found.append(words)
            words, at = [], at + 1
        elif char == "{":
            inner, at = _nginx_block(text, at + 1)
            found.append([*words, inner])
            words = []
        elif char == "}":
            assert not words, f"a block ends within {words}"
            assert not whole, "a block ends that has not begun"
            return found, at + 1
        else:
            word, at = _nginx_word(text, at)
            words.append(word)
    assert whole, "a block does not end"
    assert not words, words
    return found, at


def _nginx_word(text: str, at: int) -> tuple[str, int]:
    quote = text[at] if text[at] in "\"'" else ""
    at += len(quote)
    word = ""
    while True:
        char = text[at]
        if char == "\\":
            after = text[at + 1]
            word += after if after in "\"'\\" else _ESCAPES.get(after, char + after)
            at += 2
        elif char == quote:
            assert text[at + 1] in " \t\n;{)", f"{text[at + 1]!r} after a quoted word"
            return word, at + 1
        elif not quote and text.startswith("${", at):
            word, at = word + "${", at + 2
        elif not quote and (char.isspace() or char in ";{"):
            return word, at
        else:
            word, at = word + char, at + 1


def haproxy(text: str) -> list[list[str]]:
    """Lines as lists of words. parse_line(): quotes stand anywhere in a word, `#` outside of them ends the line, and
    within double quotes `$` is the environment."""
    return [words for line in text.split("\n") if (words := _haproxy_line(line))]


def _haproxy_line(line: str) -> list[str]:
    words: list[str] = []
    word: str | None = None
    quote = ""
    at = 0
    while at < len(line):
        char = line[at]
        at += 1
        if char == "\\" and quote != "'":
            after = line[at]
            at += 1
            word = (word or "") + _ESCAPES.get(after, after)
        elif char in "\"'" and quote in ("", char):
            quote = "" if quote else char
            word = word or ""
        elif not quote and char == "#":
            break
        elif not quote and char in " \t":
            words += [] if word is None else [word]
            word = None
        else:
            assert not (quote == '"' and char == "$"), f"a variable of the environment in {line!r}"
            word = (word or "") + char
    assert not quote, f"a quote does not end in {line!r}"
    return words if word is None else [*words, word]


def haproxy_map(text: str) -> list[list[str]]:
    """Keys and values; `#` begins a comment where a line begins."""
    lines = (line.strip(" \t") for line in text.split("\n"))
    return [re.split(r"[ \t]+", line, maxsplit=1) for line in lines if line and not line.startswith("#")]


def _lua(text: str) -> list[str]:
    """Strings decoded, what is between them as it is."""
    parts = re.split(r'"((?:[^"\\\n]|\\.)*)"', text)
    return [_lua_string(part) if n % 2 else part for n, part in enumerate(parts)]


def _lua_string(written: str) -> str:
    raw = re.sub(r"\\([0-9]{3})", lambda found: chr(int(found[1])), written)
    return raw.encode("latin-1", "surrogateescape").decode("utf-8")


def _templated(text: str) -> str:
    """What Go's templates leave of a file."""
    rest = text.replace("{{`{{`}}", "\0")
    assert "{{" not in rest, "a template action"
    return rest.replace("\0", "{{")


def _plain(data: Any) -> Tree:
    if isinstance(data, dict):
        return [[key, _plain(value)] for key, value in data.items()]
    return [_plain(each) for each in data] if isinstance(data, list) else data


def _with_rules(data: Tree) -> Tree:
    """The tree with the rules of routers as lists, in which each literal of Go is a leaf."""
    if isinstance(data, list) and len(data) == 2 and data[0] == "rule" and isinstance(data[1], str):
        parts = re.split(r'(`[^`]*`|"(?:[^"\\]|\\.)*")', data[1])
        return ["rule", [_go_literal(part) if n % 2 else part for n, part in enumerate(parts)]]
    return [_with_rules(each) for each in data] if isinstance(data, list) else data


def _go_literal(written: str) -> str:
    if written.startswith("`"):
        return written[1:-1]
    escaped = re.sub(r"\\x([0-9a-f]{2})", lambda found: f"\\udc{found[1]}", written)
    return str(json.loads(escaped))
