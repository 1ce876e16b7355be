"""The value types of a topology: written text on one side, one canonical typed form on the other."""

from __future__ import annotations

import re
from typing import Annotated, Any

import re2
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from lbgen.regex import RegexError, parse
from lbgen.spec import http, network, quantities
from lbgen.spec.value_errors import invalid, require_text, shorten

NAME_PATTERN = r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?"
_NAME = re.compile(NAME_PATTERN)
_LONGEST_REGEX = 1024
NETWORK_PATTERN = r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}"
DEVICE_PATTERN = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}"  # those of Linux have at most 15 bytes
ARN_PATTERN = "arn:aws[a-z-]*:(acm:[a-z0-9-]+:[0-9]{12}:certificate|iam::[0-9]{12}:server-certificate)/[!-~]+"


def parse_name(value: object) -> str:
    """A name of at most 63 characters, `[a-z0-9]([a-z0-9._-]*[a-z0-9])?`; LB112 otherwise."""
    name = require_text("a name", value)
    if not _NAME.fullmatch(name):
        hint = "lower-case letters, digits and . _ - between them, at most 63"
        raise invalid("LB112", f'"{shorten(name)}" is not a name', hint)
    return name


def parse_network_name(value: object) -> str:
    """A name as docker takes it for networks; LB112 otherwise."""
    name = require_text("a network's name", value)
    if not re.fullmatch(NETWORK_PATTERN, name):
        hint = "letters, digits and . _ - after the first, at most 128"
        raise invalid("LB112", f'"{shorten(name)}" is not a name of a docker network', hint)
    return name


def parse_device(value: object) -> str:
    """A name as Linux takes it for network interfaces, of a plain alphabet; LB104 otherwise."""
    name = require_text("an interface's name", value)
    if not re.fullmatch(DEVICE_PATTERN, name):
        raise invalid(
            "LB104", f'"{shorten(name)}" is not the name of an interface', "at most 15 of letters, digits, . _ -"
        )
    return name


def parse_certificate_arn(value: object) -> str:
    """The ARN of a certificate of ACM or IAM; LB104 otherwise."""
    arn = require_text("the ARN of a certificate", value)
    if not re.fullmatch(ARN_PATTERN, arn):
        hint = "write arn:aws:acm:REGION:ACCOUNT:certificate/ID; `aws acm list-certificates` lists them"
        raise invalid("LB104", f'"{shorten(arn)}" is not the ARN of a certificate', hint)
    return arn


def parse_file(value: object) -> str:
    """The path of a file, relative to the topology or absolute."""
    path = http.parse_line(value)
    if not path or path.endswith("/"):
        raise invalid("LB104", f'"{shorten(path)}" is not the path of a file')
    return path


def parse_folder(value: object) -> str:
    """The path of a folder, relative to the topology or absolute."""
    return parse_file(value)


def parse_regex(value: object) -> str:
    """A portable regular expression; LB118 with the reason otherwise."""
    pattern = require_text("a regular expression", value)
    if not pattern:
        raise invalid("LB118", "an empty regular expression", "write .+ for any value")
    if len(pattern) > _LONGEST_REGEX:
        raise invalid("LB118", f"longer than {_LONGEST_REGEX} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        parse(pattern)
        re2.compile(pattern, options)
    except RegexError as error:
        raise invalid("LB118", f'"{shorten(pattern)}": {shorten(str(error), 200)}', error.hint) from None
    except RecursionError:
        raise invalid("LB118", f'"{shorten(pattern)}": its groups are nested too deeply') from None
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise invalid("LB118", f'"{shorten(pattern)}": {shown}') from None
    return pattern


def _text(pattern: str = "", *examples: str, **more: Any) -> WithJsonSchema:  # noqa: ANN401  # JSON Schema keywords
    schema: dict[str, Any] = {"type": "string", **more}
    if pattern:
        schema["pattern"] = f"^(?:{pattern})$"
    if examples:
        schema["examples"] = list(examples)
    return WithJsonSchema(schema)


def _unless(*names: str) -> str:
    """A pattern's beginning that refuses these words, in any case of their letters."""
    words = ("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in name) for name in names)
    return f"(?!(?:{'|'.join(words)})$)"


# What editors check; `load` judges more.
_TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105  # of HTTP
_LINE = "[^\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f]*"
_LINES = "[^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]*"
_IP = r"\[?[0-9A-Fa-f:.]+\]?"
_HOST = rf"[^*:/\s]+|{_IP}"
_NO_DOTS = r"(?![^?]*/\.{0,2}/)(?![^?]*/\.{1,2}(\?|$))"  # nor empty segments
_PATH = _NO_DOTS + r"/[A-Za-z0-9._~:/\[\]@!$&'()*+,;=%-]*"

Name = Annotated[str, PlainValidator(parse_name), _text(NAME_PATTERN)]
DeviceName = Annotated[str, PlainValidator(parse_device), _text(DEVICE_PATTERN)]
CertificateArn = Annotated[str, PlainValidator(parse_certificate_arn), _text(ARN_PATTERN)]
NetworkName = Annotated[str, PlainValidator(parse_network_name), _text(NETWORK_PATTERN)]

# Quantities. A duration is whole milliseconds (0 = no limit), a size bytes, a percentage 0 to 100.
Duration = Annotated[
    int,
    PlainValidator(quantities.parse_duration),
    PlainSerializer(quantities.write_duration, return_type=str),
    _text("[0-9]+(ms|s|m|h)", "250ms", "5s", "0s"),
]
ByteSize = Annotated[
    int,
    PlainValidator(quantities.parse_size),
    PlainSerializer(quantities.write_size, return_type=str),
    _text("[0-9]+(B|KiB|MiB|GiB)", "16KiB", "10MiB"),
]
RateValue = Annotated[
    quantities.Rate,
    PlainValidator(quantities.parse_rate),
    PlainSerializer(str, return_type=str),
    _text("[1-9][0-9]*/[smh]", "100/s"),
]
Percent = Annotated[
    float,
    PlainValidator(quantities.parse_percent),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 100},
                {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,4})?%$"},
            ]
        }
    ),
]
Statuses = Annotated[
    quantities.StatusRange,
    PlainValidator(quantities.parse_status_range),
    PlainSerializer(quantities.write_status_range),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 100, "maximum": 599},
                {"type": "string", "pattern": "^[1-5][0-9]{2}-[1-5][0-9]{2}$"},
            ]
        }
    ),
]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Ports = Annotated[
    network.PortRange,
    PlainValidator(network.parse_port_range),
    PlainSerializer(str, return_type=str),
    _text("[0-9]{1,5}-[0-9]{1,5}", "8000-8010"),
]
Count = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
Weight = Annotated[int, Field(strict=True, ge=0, le=256)]  # of an endpoint: the range all engines have
Share = Annotated[int, Field(strict=True, ge=0, le=10_000)]  # of a pool in a split

# Network.
HostName = Annotated[
    str, PlainValidator(network.parse_host), _text(rf"(\*\.)?({_HOST})", "shop.example", "*.shop.example")
]
PlainHost = Annotated[str, PlainValidator(network.parse_plain_host), _text(_HOST, "shop.example")]
HostPort = Annotated[str, PlainValidator(network.parse_host_port), _text("", "api.internal", "api.internal:8080")]
AddressValue = Annotated[
    network.Address,
    PlainValidator(network.parse_address),
    PlainSerializer(str, return_type=str),
    _text(r"[^\s/]+:[0-9]{1,5}", "10.0.2.10:8080"),
]
ServiceValue = Annotated[
    network.Address,
    PlainValidator(network.parse_service),
    PlainSerializer(network.write_service, return_type=str),
    _text(rf"{network.SERVICE_PATTERN}:[0-9]{{1,5}}", "api.default:8080"),
]
IpAddress = Annotated[str, PlainValidator(network.parse_ip), _text(_IP, "0.0.0.0", "::")]  # noqa: S104  # an example
Resolver = Annotated[
    str, PlainValidator(network.parse_resolver), _text(_IP + "(:[0-9]{1,5})?", "10.0.0.2", "10.0.0.2:53")
]
Cidr = Annotated[str, PlainValidator(network.parse_cidr), _text("[0-9A-Fa-f:.]+(/[0-9]{1,3})?", "10.0.0.0/8")]

# HTTP.
UrlPath = Annotated[str, PlainValidator(http.parse_path), _text(_PATH)]
PathTemplate = Annotated[str, PlainValidator(http.parse_path_with_placeholders), _text("/[!-~]*")]
Location = Annotated[
    str, PlainValidator(http.parse_location), _text(r"(https?|\{scheme\})://[!-~]+", "https://{host}/new/{1}")
]
HostTemplate = Annotated[str, PlainValidator(http.parse_host_with_placeholders), _text(r"[^:/\s]+", "shop.example")]
UrlTarget = Annotated[str, PlainValidator(http.parse_target), _text(_PATH + r"(\?[!\"$-~]*)?")]
Regex = Annotated[str, PlainValidator(parse_regex), _text("[ -~]*", format="regex")]
HeaderName = Annotated[str, PlainValidator(http.parse_header_name), _text(_TOKEN)]
MatchedHeader = Annotated[str, PlainValidator(http.parse_matched_header), _text(_unless("host") + _TOKEN)]
ClientHeader = Annotated[
    str, PlainValidator(http.parse_client_header), _text(_unless(*sorted(http.NOT_OF_CLIENTS)) + "[0-9A-Za-z-]+")
]
EditableHeader = Annotated[
    str, PlainValidator(http.parse_editable_header), _text(_unless("host", *sorted(http.FRAMING)) + _TOKEN)
]
HeaderText = Annotated[str, PlainValidator(http.parse_header_text), _text(_LINE, minLength=1)]
MatchText = Annotated[str, PlainValidator(http.parse_match_text), _text(_LINE, minLength=1)]
MatchHeaderText = Annotated[str, PlainValidator(http.parse_match_header_text), _text(_LINE, minLength=1)]
CookieName = Annotated[str, PlainValidator(http.parse_token), _text(_TOKEN)]
QueryName = Annotated[str, PlainValidator(http.parse_query_name), _text(minLength=1)]
BodyText = Annotated[str, PlainValidator(http.parse_body), _text(_LINES)]
Method = Annotated[str, PlainValidator(http.parse_method), _text("(?!(?:TRACE|CONNECT)$)[A-Z][A-Z_-]*", "GET")]
Status = Annotated[
    int, PlainValidator(http.parse_status), WithJsonSchema({"type": "integer", "minimum": 200, "maximum": 599})
]
RedirectStatus = Annotated[
    int, PlainValidator(http.parse_redirect_status), WithJsonSchema({"enum": [301, 302, 303, 307, 308]})
]
RetryCause = Annotated[
    int | str,
    PlainValidator(http.parse_retry_cause),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["connect_failure", "reset", "timeout"]},
                {"type": "integer", "minimum": 400, "maximum": 599},
            ]
        }
    ),
]
Origin = Annotated[str, PlainValidator(http.parse_origin), _text("", "https://shop.example")]
MediaType = Annotated[str, PlainValidator(http.parse_media_type), _text("", "application/json")]
FolderPath = Annotated[str, PlainValidator(parse_folder), _text(_LINE, minLength=1, format="path")]
FilePath = Annotated[str, PlainValidator(parse_file), _text(_LINE, minLength=1, format="path")]
