"""Listeners: ports with their TLS, paths, access lists and limits."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from lbgen.spec.auth import Auth
from lbgen.spec.base import OrWord, Strict, at_least_one, needs_one_of
from lbgen.spec.error_pages import ErrorPages
from lbgen.spec.value_errors import invalid, shorten, wrong_type
from lbgen.spec.values import (
    ByteSize,
    Cidr,
    ClientHeader,
    Count,
    Duration,
    FilePath,
    HostName,
    IpAddress,
    Name,
    PlainHost,
    Port,
    Ports,
)

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
PathsMode = Literal["strict", "normalize", "verbatim"]
PathsException = Literal["empty_segments", "encoded_slash", "encoded_unreserved"]


class Paths(OrWord):
    """The request targets that are accepted: a word, or `{ allow: [...] }` = strict with exceptions."""

    word = "mode"
    words = ("strict", "normalize", "verbatim")

    mode: PathsMode = Field(
        default="strict",
        description="strict refuses targets that intermediaries could read in two ways, normalize forwards their "
        "normal form, verbatim forwards them as they come",
    )
    allow: list[PathsException] | None = Field(
        default=None, min_length=1, description="exceptions to strict; none when left out"
    )


Underscores = Literal["drop", "pass"]


class Access(Strict):
    """The clients that are admitted, by address. `deny` is checked first; with `allow` all others are refused."""

    model_config = at_least_one("allow", "deny")

    allow: list[Cidr] | None = Field(
        default=None, description="networks of clients that are admitted; all when left out"
    )
    deny: list[Cidr] | None = Field(
        default=None, description="networks of clients that are refused, checked before allow; none when left out"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _some(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "allow", "deny", many=True, what="access")


class ClientIp(Strict):
    """Where trusted proxies state the client's address."""

    header: ClientHeader = Field(
        description="the field that holds it, such as CF-Connecting-IP, True-Client-IP, X-Real-IP or Forwarded; it is "
        "read from the right, as X-Forwarded-For is, and what other peers send in it is dropped",
        examples=["CF-Connecting-IP"],
    )


class ClientTimeouts(Strict):
    """Timeouts of clients; 0 = no limit, None = not set here."""

    client_header: Duration | None = Field(
        default=None, description="time for the whole head of a request; the profile's when left out"
    )
    client_body: Duration | None = Field(
        default=None, description="longest silence inside a request's body; the profile's when left out"
    )
    keepalive: Duration | None = Field(
        default=None, description="how long an idle connection is kept; the profile's when left out", examples=["75s"]
    )


class Limits(Strict):
    """Limits of request sizes."""

    headers: ByteSize | None = Field(
        default=None,
        description="size of all headers of a request together, more gets 431; the engine's own limit when left out",
        examples=["16KiB"],
    )
    target: ByteSize | None = Field(
        default=None,
        description="size of the request target, more gets 414 or 431; the engine's own limit when left out",
        examples=["8KiB"],
    )


class Certificate(Strict):
    """A certificate chain and its key, as PEM files."""

    cert: FilePath = Field(
        description="PEM file with the certificate and its chain; relative paths start at the topology's folder",
        examples=["certs/site.crt"],
    )
    key: FilePath = Field(
        description="PEM file with the private key; copied with mode 0600", examples=["certs/site.key"]
    )
    names: list[HostName] | None = Field(
        default=None, min_length=1, description="server names it serves; read from the certificate when left out"
    )


class Acme(Strict):
    """A certificate that lbgen's agent obtains and renews from an ACME authority, by HTTP-01."""

    email: str | None = Field(
        default=None,
        pattern=r"^[!-?A-~]+@[!-?A-~]+$",
        description="address of the account, for messages of the authority; none when left out",
        examples=["ops@shop.example"],
    )
    directory: str = Field(
        default=LETS_ENCRYPT,
        pattern=r"^https://[!-~]+$",
        description="URL of the authority's ACME directory; Let's Encrypt's when left out",
        examples=["https://acme.internal/acme/directory"],
    )
    domains: list[PlainHost] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="names of the certificate; the hosts of the listener's routes when left out",
        examples=[["shop.example", "www.shop.example"]],
    )
    ca: FilePath | None = Field(
        default=None,
        description="PEM file with the authorities of the directory's own certificate; the system's when left out",
        examples=["certs/internal-ca.crt"],
    )


class ClientCertificates(Strict):
    """The authorities that sign clients' certificates."""

    ca: FilePath = Field(
        description="PEM file with the authorities that sign clients' certificates", examples=["certs/clients-ca.crt"]
    )
    verify: Literal["required", "optional"] = Field(
        default="required", description="whether a client must show a certificate"
    )


_MinVersion = Annotated[
    Literal["1.2", "1.3"] | None,
    Field(description="lowest TLS version; that of the policy when left out", examples=["1.2"]),
]
_Policy = Annotated[
    Literal["modern", "intermediate"] | None,
    Field(description="versions and ciphers as Mozilla recommends them; intermediate when left out"),
]


_Curves = Annotated[
    list[Literal["X25519MLKEM768", "X25519", "P-256", "P-384", "P-521"]] | None,
    Field(
        min_length=1,
        description="curves of the key exchange, preferred ones first; the engine's own when left out",
        examples=[["X25519", "P-256"]],
    ),
]


class TlsDefaults(Strict):
    """Defaults for listeners that terminate TLS."""

    min_version: _MinVersion = None
    policy: _Policy = None


class ListenerTls(Strict):
    """The TLS of a listener. The first certificate serves clients that send no SNI."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"const": "terminate"}}},
            "then": {"anyOf": [{"required": ["certificates"]}, {"required": ["acme"]}]},
        }
    )

    mode: Literal["terminate", "passthrough"] = Field(
        default="terminate", description="terminate decrypts; passthrough (l4) reads the server name only"
    )
    certificates: list[Certificate] | None = Field(
        default=None,
        min_length=1,
        description="chosen by server name, the first for clients that send none; this or acme is needed, no default",
        examples=[[{"cert": "certs/site.crt", "key": "certs/site.key"}]],
    )
    acme: Acme | None = Field(
        default=None,
        description="a certificate that lbgen's agent obtains and renews, after `certificates`; none when left out",
        examples=[{"email": "ops@shop.example", "domains": ["shop.example"]}],
    )
    min_version: _MinVersion = None
    policy: _Policy = None
    curves: _Curves = None
    client: ClientCertificates | None = Field(
        default=None,
        description="request certificates from clients; none are requested when left out",
        examples=[{"ca": "certs/clients-ca.crt"}],
    )


def _needs_port(schema: dict[str, Any]) -> None:
    schema["required"].remove("port")
    schema["oneOf"] = [{"required": ["port"]}, {"required": ["ports"]}]


class Listener(Strict):
    """A port, or a range of ports, and how it is served."""

    model_config = ConfigDict(json_schema_extra=_needs_port)

    port: Port = Field(description="the port it listens on; the first of ports when left out", examples=[8080])
    ports: Ports | None = Field(
        default=None,
        description="several ports of an l4 listener, each a listener of its own named NAME-PORT; no default",
        examples=["8000-8010"],
    )
    address: IpAddress = Field(default="0.0.0.0", description='"::" is IPv4 and IPv6, 127.0.0.1 this host only')  # noqa: S104  # the contract's
    tier: Name | None = Field(
        default=None, description="the tier that serves it, in a topology that has tiers; no default", examples=["edge"]
    )
    mode: Literal["l7", "l4"] = Field(default="l7", description="l7 routes requests, l4 connections or datagrams")
    protocol: Literal["tcp", "udp"] | None = Field(default=None, description="of an l4 listener; tcp when left out")
    tls: ListenerTls | None = Field(
        default=None,
        description="how it speaks TLS; plain text when left out",
        examples=[{"certificates": [{"cert": "certs/site.crt", "key": "certs/site.key"}]}],
    )
    http2: bool | None = Field(default=None, description="whether clients may speak HTTP/2; with TLS when left out")
    proxy_protocol: Literal["accept"] | None = Field(
        default=None, description="accept: every connection begins with a PROXY header; none is read when left out"
    )
    trusted_proxies: list[Cidr] = Field(
        default_factory=list,
        description="peers whose X-Forwarded-* and X-Request-Id are trusted, Forwarded too where it is sent",
        examples=[["10.0.0.0/8"]],
    )
    client_ip: ClientIp | None = Field(
        default=None,
        description="where trusted_proxies state the client's address; in X-Forwarded-For when left out",
        examples=[{"header": "CF-Connecting-IP"}],
    )
    max_connections: Count | None = Field(
        default=None, description="connections at a time; no limit when left out", examples=[10000]
    )
    paths: Paths | None = Field(
        default=None,
        description="request targets that are accepted; the topology's when left out",
        examples=[{"allow": ["empty_segments"]}],
    )
    headers_with_underscores: Underscores | None = Field(
        default=None,
        description="what becomes of request fields with an underscore in their names, which some servers take for one "
        "with a hyphen; the topology's when left out",
        examples=["pass"],
    )
    access: Access | None = Field(
        default=None,
        description="clients that are admitted, by address; all when left out",
        examples=[{"deny": ["192.0.2.0/24"]}],
    )
    auth: Auth | None = Field(
        default=None,
        description="who may send requests of its routes, unless a route has an auth of its own; all when left out",
        examples=[{"basic": {"users": "users.htpasswd"}}],
    )
    policies: list[Name] | None = Field(
        default=None,
        min_length=1,
        description="names of policies, which hold for each of its routes, below the route's own; none when left out",
        examples=[["secured"]],
    )
    error_pages: ErrorPages | None = Field(
        default=None,
        description="what clients get instead of the engine's own text, by status; the topology's when left out",
        examples=[{"404": {"file": "errors/404.html"}}],
    )
    limits: Limits | None = Field(
        default=None,
        description="sizes of what a client may send; the topology's when left out",
        examples=[{"headers": "16KiB", "target": "8KiB"}],
    )
    timeouts: ClientTimeouts | None = Field(
        default=None,
        description="how long a client may take; the topology's client_timeouts when left out",
        examples=[{"client_header": "10s"}],
    )

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, data: object) -> object:
        if isinstance(data, int) and not isinstance(data, bool):
            raise wrong_type("a mapping", data, f"write {{ port: {shorten(str(data))} }}")
        if isinstance(data, dict) and data.get("ports") is not None:
            first = re.match("[0-9]+", str(data["ports"]))  # what is malformed is found at the field itself
            return {"port": int(first[0]) if first else 1, **data}
        return data

    @model_validator(mode="after")
    def _first(self) -> Self:
        if self.ports is not None and self.port != self.ports.first:
            raise invalid("LB125", "a listener has either port or ports", "keep one of them")
        return self

    @property
    def every_port(self) -> "Sequence[int]":
        """Its port, or all ports of its range."""
        return (self.port,) if self.ports is None else self.ports.ports

    @property
    def terminates_tls(self) -> bool:
        return self.tls is not None and self.tls.mode == "terminate"
