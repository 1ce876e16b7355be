"""The features of HAProxy, in the order in which their statements see a request: one row, and one file, for each."""

from __future__ import annotations

from lbgen.engines.haproxy.access_log import ACCESS_LOG
from lbgen.engines.haproxy.backend_selection import SPLITS, STICKY
from lbgen.engines.haproxy.basic_auth import BASIC_AUTH
from lbgen.engines.haproxy.buffers import BUFFERING
from lbgen.engines.haproxy.compression import COMPRESSION
from lbgen.engines.haproxy.connections import (
    BACKUPS,
    ENDPOINT_NAMES,
    HTTP2,
    KEEPALIVE,
    MAX_PER_ENDPOINT,
    PROXY_PROTOCOL,
    QUEUES,
    SLOW_START,
)
from lbgen.engines.haproxy.cors import CORS, CORS_GRANTS
from lbgen.engines.haproxy.error_pages import ERROR_PAGES
from lbgen.engines.haproxy.forward_auth import FORWARD_AUTH
from lbgen.engines.haproxy.headers import HEADERS, RESPONSE_HEADERS
from lbgen.engines.haproxy.health_checks import HEALTH_CHECKS
from lbgen.engines.haproxy.jwt import JWT
from lbgen.engines.haproxy.limits import ACCESS, CLIENT, CONCURRENCY, LIMITS, MAX_BODY, RATE_LIMITS
from lbgen.engines.haproxy.mirrors import MIRRORS
from lbgen.engines.haproxy.retries import RETRIES
from lbgen.engines.haproxy.rewrites import ANSWERS, REWRITES
from lbgen.engines.haproxy.timeouts import TIMEOUTS
from lbgen.engines.haproxy.tls import POOL_TLS, TLS
from lbgen.engines.haproxy.values import SHARED_VALUES, VALUES

FEATURES = (
    TLS,
    LIMITS,
    CLIENT,
    SHARED_VALUES,
    CORS_GRANTS,
    ACCESS,
    VALUES,
    FORWARD_AUTH,
    HEADERS,
    SPLITS,
    REWRITES,
    ERROR_PAGES,
    CORS,
    RESPONSE_HEADERS,
    RATE_LIMITS,
    CONCURRENCY,
    BASIC_AUTH,
    JWT,
    MAX_BODY,
    ENDPOINT_NAMES,
    KEEPALIVE,
    BACKUPS,
    MAX_PER_ENDPOINT,
    STICKY,
    QUEUES,
    PROXY_PROTOCOL,
    POOL_TLS,
    HTTP2,
    RETRIES,
    HEALTH_CHECKS,
    SLOW_START,
    COMPRESSION,
    TIMEOUTS,
    ACCESS_LOG,
    BUFFERING,
    ANSWERS,
    MIRRORS,
)
