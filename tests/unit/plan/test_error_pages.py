"""Error pages: which one is for an answer, what their files may hold, and what the oracle says of them."""

import re

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.plan.error_pages import LARGEST_PAGE, intercepting_page, page_for, read_page, share_statuses
from lbgen.plan.request import Request
from lbgen.plan.resolve import plan
from lbgen.plan.simulate import simulate
from lbgen.plan.values import text_pattern

TOPOLOGY = {
    "version": 1,
    "name": "pages",
    "error_pages": {"5xx": {"body": "topology"}, "404": {"body": "none"}},
    "listeners": {"web": {"port": 8080, "error_pages": {"503": {"body": "listener", "content_type": "text/html"}}}},
    "pools": {
        "app": {"endpoints": [{"address": "10.0.0.1:80"}]},
        "calls": {"endpoints": [{"address": "10.0.0.2:80"}], "protocol": "grpc"},
    },
    "routes": [
        {
            "name": "own",
            "match": [{"path": {"prefix": "/own"}}],
            "forward": "app",
            "access": {"allow": []},
            "error_pages": {"5xx": {"body": "route", "intercept": True}, "403": {"body": "no", "status": 404}},
        },
        {"name": "plain", "match": [{"path": {"prefix": "/plain"}}], "forward": "app"},
        {"name": "calls", "match": [{"path": {"prefix": "/calls"}}], "forward": "calls"},
    ],
}


@pytest.fixture(name="pages", scope="module")
def _pages():
    return plan(lbgen.load(TOPOLOGY))


def of(plan, route=None):
    return plan.error_pages(plan.listeners[0], plan.route(route) if route else None)


@pytest.mark.parametrize(
    ("route", "status", "body"),
    [
        (None, 503, "listener"),  # the exact status before the class
        (None, 502, "topology"),
        (None, 404, "none"),
        (None, 403, None),
        ("own", 503, "route"),  # the nearer level before the exact status
        ("own", 404, "none"),
        ("plain", 503, "listener"),
        ("calls", 503, None),  # clients of gRPC read no pages
    ],
)
def test_the_nearest_level_comes_first(pages, route, status, body):
    found = page_for(of(pages, route), status)
    assert (found and found.body) == body


def test_only_some_pages_intercept(pages):
    assert intercepting_page(of(pages, "own"), 503) is not None
    assert intercepting_page(of(pages, "own"), 404) is None
    assert intercepting_page(of(pages, "plain"), 503) is None


def test_each_status_has_one_page(pages):
    shared = list(share_statuses(of(pages, "own"), (403, 404, 502, 503)))
    assert [(page.body, statuses) for page, statuses in shared] == [
        ("no", (403,)),
        ("route", (502, 503)),
        ("none", (404,)),
    ]


def ask(pages, target, method="GET"):
    return simulate(pages, Request(method=method, target=target, headers=(("Host", "h"),)))


def test_the_oracle_answers_with_pages(pages):
    missing = ask(pages, "/")
    assert (missing.status, missing.body, missing.headers) == (404, "none", (("content-type", "text/plain"),))
    assert ask(pages, "/", "HEAD").body == ""
    denied = ask(pages, "/own")
    assert (denied.status, denied.body, denied.causes) == (404, "no", (403,))
    assert ask(pages, "/plain").status is None


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"x" * (LARGEST_PAGE + 1), "larger than 64 KiB"), (b"\xff\xfe", "not UTF-8"), (b"a\0b", "U\\+0000")],
)
def test_a_page_is_text(tmp_path, content, why):
    path = tmp_path / "page.html"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        read_page(path)


def test_lines_of_a_page_end_alike(tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(b"\xef\xbb\xbf<p>\r\n\tcaf\xc3\xa9</p>\r\n")
    assert read_page(path) == "<p>\n\tcaf\u00e9</p>\n"


def test_the_type_is_that_of_the_file(tmp_path):
    for name in ("a.html", "b.json", "c"):
        (tmp_path / name).write_text("x")
    pages = {"404": {"file": "a.html"}, "403": {"file": "b.json"}, "5xx": {"file": "c"}}
    topology = lbgen.load({**TOPOLOGY, "error_pages": pages}, base=tmp_path)
    found = {page.key: page.content_type for page in plan(topology).listeners[0].error_pages}
    assert (found["404"], found["403"], found["5xx"]) == ("text/html", "application/json", "text/plain")


def test_pages_hold_what_the_request_was(pages):
    value = {
        "404": {"body": "{path}|{host}|{header.x-a}|{{path}}|{request_id}"},
        "403": {"body": "{scheme} {header.x-user}"},
    }
    auth = {"forward": {"pool": "app", "redirect_to": "/in?rd={uri}&by={header.x-a}"}}
    edited = {"request_headers": {"remove": ["x-a"]}, "access": {"deny": ["192.0.2.0/24"]}, "auth": auth}
    shop = plan(lbgen.load({**TOPOLOGY, "error_pages": value, "routes": [{"name": "a", "forward": "app", **edited}]}))
    asked = Request("GET", "/x?y", (("Host", "H.example:80"), ("X-A", "é".encode().decode("latin-1"))))
    found = simulate(shop, asked)
    assert text_pattern(found.login) == re.escape("/in?rd=/x?y&by=\xc3\xa9")
    page = page_for(found.error_pages, 404)
    assert re.fullmatch(text_pattern(page.body), "/x|h.example|\xc3\xa9|{path}|id") is not None
    assert simulate(shop, replace(asked, client="192.0.2.1")).body == "http "
