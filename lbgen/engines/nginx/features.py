"""The features of nginx, in the order of their directives: one row for each, in whose file is all about it."""

from __future__ import annotations

from lbgen.engines.nginx.access import ACCESS
from lbgen.engines.nginx.access_log import ACCESS_LOG, L4_LOG
from lbgen.engines.nginx.balancing import BALANCING, ENDPOINTS, KEEPALIVE
from lbgen.engines.nginx.basic_auth import BASIC_AUTH
from lbgen.engines.nginx.compression import COMPRESSION
from lbgen.engines.nginx.cors import CORS
from lbgen.engines.nginx.error_pages import ERROR_PAGES
from lbgen.engines.nginx.forward_auth import FORWARD_AUTH
from lbgen.engines.nginx.forwarded_headers import FORWARDED_HEADERS
from lbgen.engines.nginx.headers import HEADERS
from lbgen.engines.nginx.health_checks import PASSIVE_CHECKS
from lbgen.engines.nginx.limits import HEAD_LIMITS, MAX_BODY, MAX_CONNECTIONS, RATE_LIMITS
from lbgen.engines.nginx.listeners import UDP
from lbgen.engines.nginx.mirrors import MIRRORS
from lbgen.engines.nginx.paths import PATHS
from lbgen.engines.nginx.retries import RETRIES
from lbgen.engines.nginx.sticky import STICKY
from lbgen.engines.nginx.timeouts import TIMEOUTS
from lbgen.engines.nginx.tls import TLS
from lbgen.engines.nginx.upstream_protocols import PROTOCOLS

FEATURES = (
    TLS,
    UDP,
    ACCESS_LOG,
    HEADERS,
    ERROR_PAGES,
    PATHS,
    HEAD_LIMITS,
    FORWARDED_HEADERS,
    ACCESS,
    CORS,
    MAX_BODY,
    MAX_CONNECTIONS,
    RATE_LIMITS,
    BASIC_AUTH,
    FORWARD_AUTH,
    TIMEOUTS,
    PROTOCOLS,
    COMPRESSION,
    RETRIES,
    MIRRORS,
    BALANCING,
    PASSIVE_CHECKS,
    ENDPOINTS,
    STICKY,
    KEEPALIVE,
    L4_LOG,
)
