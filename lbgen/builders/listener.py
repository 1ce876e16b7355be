"""Mappings of a topology that lbgen/spec/listener.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Required, TypedDict


class Certificate(TypedDict, total=False):
    """A certificate chain and its key, as PEM files."""

    cert: Required[str]
    """PEM file with the certificate and its chain; relative paths start at the topology's folder"""
    key: Required[str]
    """PEM file with the private key; copied with mode 0600"""
    names: Sequence[str]
    """server names it serves; read from the certificate when left out"""


class ClientCertificates(TypedDict, total=False):
    """The authorities that sign clients' certificates."""

    ca: Required[str]
    """PEM file with the authorities that sign clients' certificates"""
    verify: Literal["required", "optional"]
    """whether a client must show a certificate"""


class Paths(TypedDict, total=False):
    """The request targets that are accepted: a word, or `{ allow: [...] }` = strict with exceptions."""

    mode: Literal["strict", "normalize", "verbatim"]
    """strict refuses targets that intermediaries could read in two ways, normalize forwards their normal form,
    verbatim forwards them as they come"""
    allow: Sequence[Literal["empty_segments", "encoded_slash", "encoded_unreserved"]]
    """exceptions to strict; none when left out"""


class Access(TypedDict, total=False):
    """The clients that are admitted, by address. `deny` is checked first; with `allow` all others are refused."""

    allow: Sequence[str]
    """networks of clients that are admitted; all when left out"""
    deny: Sequence[str]
    """networks of clients that are refused, checked before allow; none when left out"""


class Limits(TypedDict, total=False):
    """Limits of request sizes."""

    headers: str
    """size of all headers of a request together, more gets 431; the engine's own limit when left out"""
    target: str
    """size of the request target, more gets 414 or 431; the engine's own limit when left out"""


class ClientTimeouts(TypedDict, total=False):
    """Timeouts of clients; 0 = no limit, None = not set here."""

    client_header: str
    """time for the whole head of a request; the profile's when left out"""
    client_body: str
    """longest silence inside a request's body; the profile's when left out"""
    keepalive: str
    """how long an idle connection is kept; the profile's when left out"""


class TlsDefaults(TypedDict, total=False):
    """Defaults for listeners that terminate TLS."""

    min_version: Literal["1.2", "1.3"]
    """lowest TLS version; that of the policy when left out"""
    policy: Literal["modern", "intermediate"]
    """versions and ciphers as Mozilla recommends them; intermediate when left out"""


class ListenerTls(TypedDict, total=False):
    """The TLS of a listener. The first certificate serves clients that send no SNI."""

    mode: Literal["terminate", "passthrough"]
    """terminate decrypts; passthrough (l4) reads the server name only"""
    certificates: Sequence[Certificate]
    """chosen by server name, the first for clients that send none; needed to terminate, no default"""
    min_version: Literal["1.2", "1.3"]
    """lowest TLS version; that of the policy when left out"""
    policy: Literal["modern", "intermediate"]
    """versions and ciphers as Mozilla recommends them; intermediate when left out"""
    curves: Sequence[Literal["X25519MLKEM768", "X25519", "P-256", "P-384", "P-521"]]
    """curves of the key exchange, preferred ones first; the engine's own when left out"""
    client: ClientCertificates
    """request certificates from clients; none are requested when left out"""


class Listener(TypedDict, total=False):
    """A port, or a range of ports, and how it is served."""

    port: int
    """the port it listens on; the first of ports when left out"""
    ports: str
    """several ports of an l4 listener, each a listener of its own named NAME-PORT; no default"""
    address: str
    """"::" is IPv4 and IPv6, 127.0.0.1 this host only"""
    tier: str
    """the tier that serves it, in a topology that has tiers; no default"""
    mode: Literal["l7", "l4"]
    """l7 routes requests, l4 connections or datagrams"""
    protocol: Literal["tcp", "udp"]
    """of an l4 listener; tcp when left out"""
    tls: ListenerTls
    """how it speaks TLS; plain text when left out"""
    http2: bool
    """whether clients may speak HTTP/2; with TLS when left out"""
    proxy_protocol: Literal["accept"]
    """accept: every connection begins with a PROXY header; none is read when left out"""
    trusted_proxies: Sequence[str]
    """peers whose X-Forwarded-* and X-Request-Id are trusted"""
    max_connections: int
    """connections at a time; no limit when left out"""
    paths: Literal["strict", "normalize", "verbatim"] | Paths
    """request targets that are accepted; the topology's when left out"""
    headers_with_underscores: Literal["drop", "pass"]
    """what becomes of request fields with an underscore in their names, which some servers take for one with a
    hyphen; the topology's when left out"""
    access: Access
    """clients that are admitted, by address; all when left out"""
    limits: Limits
    """sizes of what a client may send; the topology's when left out"""
    timeouts: ClientTimeouts
    """how long a client may take; the topology's client_timeouts when left out"""
