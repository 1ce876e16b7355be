"""Single values: what is accepted and its one canonical form, what is refused and under which code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic_core import PydanticCustomError

from lbgen.spec import http, network, quantities
from lbgen.spec.values import parse_name, parse_regex

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("parse", "written", "value"),
    [
        (quantities.parse_duration, "250ms", 250),
        (quantities.parse_duration, "0s", 0),
        (quantities.parse_duration, "576h", 576 * 3_600_000),
        (quantities.parse_size, "16KiB", 16_384),
        (quantities.parse_rate, "30/m", (30, 60)),
        (quantities.parse_percent, "12.5%", 12.5),
        (quantities.parse_percent, 20, 20.0),
        (quantities.parse_status_range, 204, (204, 204)),
        (quantities.parse_status_range, "200-299", (200, 299)),
        (network.parse_host, "Shop.Example.", "shop.example"),
        (network.parse_host, "*.shop.example", "*.shop.example"),
        (network.parse_host, "b\u00fccher.example", "xn--bcher-kva.example"),
        (network.parse_host, "192.0.2.1", "192.0.2.1"),
        (network.parse_host, "2001:DB8:0::1", "[2001:db8::1]"),
        (network.parse_host, "[2001:db8::1]", "[2001:db8::1]"),
        (network.parse_host, "localhost", "localhost"),
        (network.parse_host_port, "API.internal:8443", "api.internal:8443"),
        (network.parse_host_port, "[::1]:80", "[::1]:80"),
        (network.parse_address, "10.0.0.1:80", ("10.0.0.1", 80, True)),
        (network.parse_service, "api.shop:80", ("api.shop.svc.cluster.local", 80, False)),
        (network.parse_address, "[2001:DB8::1]:80", ("2001:db8::1", 80, True)),
        (network.parse_address, "Web_2:80", ("web_2", 80, False)),
        (network.parse_ip, "::", "::"),
        (network.parse_resolver, "10.0.0.2", "10.0.0.2"),
        (network.parse_resolver, "[::1]:53", "[::1]:53"),
        (network.parse_cidr, "10.0.0.0/8", "10.0.0.0/8"),
        (network.parse_cidr, "192.0.2.7", "192.0.2.7/32"),
        (network.parse_cidr, "2001:DB8::/32", "2001:db8::/32"),
        (http.parse_path, "/", "/"),
        (http.parse_path, "/api/", "/api/"),
        (http.parse_path, "/caf%c3%a9", "/caf%C3%A9"),
        (http.parse_path, "/a%20b;v=1:@!$&'()*+,=[]", "/a%20b;v=1:@!$&'()*+,=[]"),
        (http.parse_path, "/...", "/..."),
        (http.parse_target, "/healthz?full=1", "/healthz?full=1"),
        (http.parse_header_name, "X-Env", "x-env"),
        (http.parse_editable_header, "X_a.b", "x_a.b"),
        (http.parse_header_text, 'a "b" \\ $x %[y] {{z}} `w` #', 'a "b" \\ $x %[y] {{z}} `w` #'),
        (http.parse_header_text, "a\tb", "a\tb"),
        (http.parse_header_text, "caf\u00e9", "caf\u00e9"),
        (http.parse_body, "a\n\tb\n", "a\n\tb\n"),
        (http.parse_body, "", ""),
        (http.parse_method, "M-SEARCH", "M-SEARCH"),
        (http.parse_status, 599, 599),
        (http.parse_query_name, "a[]", "a[]"),
        (http.parse_retry_cause, "reset", "reset"),
        (http.parse_retry_cause, 503, 503),
        (http.parse_origin, "https://*.shop.example", "https://*.shop.example"),
        (parse_name, "a", "a"),
        (parse_name, "a.b_c-9", "a.b_c-9"),
        (parse_regex, r"/items/[0-9]+(\.json)?", r"/items/[0-9]+(\.json)?"),
        (parse_regex, r"(?i)^/a\d{2,}[^-a-z\]\t]*?$|b", r"(?i)^/a\d{2,}[^-a-z\]\t]*?$|b"),
        (parse_regex, r"[[:alpha:]_-]+", r"[[:alpha:]_-]+"),
    ],
)
def test_accepted(parse: Callable[[object], Any], written: object, value: Any) -> None:
    assert parse(written) == value
    if isinstance(value, str):
        assert parse(value) == value


@pytest.mark.parametrize(
    ("parse", "code", "written"),
    [
        (quantities.parse_duration, "LB113", ["5", "1.5s", "1h30m", "5 s", "-5s", "5S", "", 5, 1.5, "577h", "\u0665s"]),
        (quantities.parse_duration, "LB105", [True, [], {}]),
        (quantities.parse_size, "LB114", ["10MB", "10", "1.5KiB", 10, "1024GiB"]),
        (quantities.parse_rate, "LB124", ["100", 100, "0/s", "1/d", "1/ s"]),
        (quantities.parse_percent, "LB104", ["20", "101%", -1, 100.5, "x%"]),
        (quantities.parse_status_range, "LB123", [99, 600, "299-200", "20-30"]),
        (
            network.parse_host,
            "LB116",
            ["*", "a.*.b", "*a.b", "a:80", "a b", "-a", "a-.b", "a..b", "", ".", "1.2.3", "0x7f"],
        ),
        (
            network.parse_host,
            "LB116",
            ["a" * 64, ".".join(["a" * 60] * 5), "stra\u00dfe.de", "\u200d.de", "*.1.2.3.4", "a%b"],
        ),
        (network.parse_plain_host, "LB116", ["*.a"]),
        (
            network.parse_address,
            "LB115",
            ["a", "10.0.0.1", "::1", "::1:80:x", "a:b", "http://a:80", "unix:/x", "0.0.0.0:80"],
        ),
        (network.parse_service, "LB115", ["api:80", "api.shop", "api.shop.svc.cluster.local:80", "1.2:80", "A.b:80"]),
        (network.parse_address, "LB104", ["a:0", "a:65536"]),
        (network.parse_ip, "LB115", ["localhost", "fe80::1%eth0", "", "1.2.3"]),
        (network.parse_resolver, "LB115", ["dns.example", "dns.example:53"]),
        (network.parse_cidr, "LB122", ["10.0.0.1/8", "10/8", "x", "10.0.0.0/33", ""]),
        (
            http.parse_path,
            "LB117",
            ["", "a", "/a b", "/a?b", "/a#b", "//", "/a//b", "/./a", "/a/..", "/\u00e9", '/"', "/a\\b"],
        ),
        (
            http.parse_path,
            "LB117",
            ["/%", "/%4", "/%zz", "/%2f", "/%5C", "/%00", "/%7f", "/%1F", "/%41", "/%2e", "/%7E"],
        ),
        (http.parse_target, "LB117", ["/a?b c", "/a?b#c"]),
        (http.parse_header_name, "LB119", ["", "a b", "a:", "\u00e9", "a\n"]),
        (http.parse_matched_header, "LB119", ["Host"]),
        (http.parse_client_header, "LB119", ["Host", "Cookie", "X-Forwarded-Proto", "Connection", "X_Real_IP", "x%y"]),
        (
            http.parse_editable_header,
            "LB119",
            ["host", "Connection", "TE", "Content-Length", "transfer-encoding", "Upgrade"],
        ),
        (http.parse_header_text, "LB104", ["", " a", "a\t"]),
        (http.parse_header_text, "LB120", ["a\r", "a\nb", "\0", "\x7f", "a\x85b", "\x1b"]),
        (http.parse_match_text, "LB104", [""]),
        (http.parse_body, "LB120", ["a\r\n", "\0", "\x0b"]),
        (http.parse_method, "LB121", ["get", "", "G T", "TRACE", "CONNECT", "\u00c9"]),
        (http.parse_status, "LB123", [100, 199, 600, -1]),
        (http.parse_status, "LB105", ["200", True, 200.0]),
        (http.parse_redirect_status, "LB123", [200, 300, 304]),
        (http.parse_query_name, "LB104", ["", "a=b", "a&b", "a b", "\u00e9", "#"]),
        (http.parse_retry_cause, "LB104", ["foo"]),
        (http.parse_origin, "LB104", ["shop.example", "https://a/", "HTTPS://a"]),
        (parse_name, "LB112", ["", "A", "-a", "a-", "a b", "a" * 64, "\u00e9", "a\n"]),
        (parse_regex, "LB118", ["", "(", "[", "a**", "a++", "*a", "(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "a" * 1025]),
        (
            parse_regex,
            "LB118",
            [r"\v", r"\C", r"\Qa\E", r"\pN", r"\p{L}", r"\z", r"\A", r"\s", r"\h", r"\K", r"\x{41}", r"\07"],
        ),
        (parse_regex, "LB118", ["(?U)a", "(?<n>a)", "(?s).", "(?m)a", "(?#c)a", "a(?i)b", "(?>a)"]),
        (
            parse_regex,
            "LB118",
            ["\u00e9", "a\x7f", "a\tb", "[]a]", "[a[b]", r"[\d-z]", "[a-c-e]", "[z-a]", "[[:foo:]]"],
        ),
        (parse_regex, "LB118", ["a{,3}", "a{", "a{2}{3}", "a{1001}", "a^b", "a$b", "(a$)b", "(^a)", "a\\", "[\\b]"]),
    ],
)
def test_refused(parse: Callable[[object], Any], code: str, written: list[object]) -> None:
    for value in written:
        with pytest.raises(PydanticCustomError) as caught:
            parse(value)
        assert caught.value.type == code, value


@pytest.mark.parametrize("milliseconds", [0, 1, 250, 1000, 1500, 60_000, 90_000, 3_600_000, 86_400_000])
def test_durations_are_written_as_they_are_read(milliseconds: int) -> None:
    assert quantities.parse_duration(quantities.write_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 1536, 1 << 20, 3 << 30])
def test_sizes_are_written_as_they_are_read(size: int) -> None:
    assert quantities.parse_size(quantities.write_size(size)) == size


@pytest.mark.parametrize(
    ("parse", "written", "hint"),
    [
        (quantities.parse_duration, "1.5s", "write 1500ms"),
        (quantities.parse_duration, "1h30m", "write 90m"),
        (quantities.parse_duration, 5, "write 5s or 5ms"),
        (network.parse_cidr, "10.1.2.3/8", "write 10.0.0.0/8"),
        (network.parse_address, "::1", 'write "[::1]:8080"'),
        (http.parse_path, "/a b", "write /a%20b"),
        (http.parse_path, "/a//b", "write /a/b"),
        (http.parse_path, "/%41", "write A"),
        (http.parse_method, "get", "write GET"),
        (http.parse_status, "200", "write 200"),
        (http.parse_query_name, "a b", "write it as it stands in a URL: a%20b"),
    ],
)
def test_the_hint_says_what_to_write(parse: Callable[[object], Any], written: object, hint: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse(written)
    assert caught.value.context is not None
    assert caught.value.context["hint"] == hint
