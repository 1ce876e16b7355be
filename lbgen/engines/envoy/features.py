"""The features of Envoy, in the order in which their HTTP filters see a request: one line, and one file, for each.

What they add is merged by `listeners`, `routes` and `upstreams`; the router comes after all filters.
"""

from __future__ import annotations

from lbgen.engines.envoy.access import LISTENER_ACCESS, ROUTE_ACCESS
from lbgen.engines.envoy.access_log import ACCESS_LOG
from lbgen.engines.envoy.balancing import BALANCING
from lbgen.engines.envoy.basic_auth import BASIC_AUTH, CHALLENGES
from lbgen.engines.envoy.compression import COMPRESSION
from lbgen.engines.envoy.connections import CONNECTIONS
from lbgen.engines.envoy.cors import CORS
from lbgen.engines.envoy.error_pages import ERROR_PAGES
from lbgen.engines.envoy.forward_auth import FORWARD_AUTH
from lbgen.engines.envoy.forwarded_headers import FORWARDED_HEADERS
from lbgen.engines.envoy.headers import HEADERS
from lbgen.engines.envoy.health_checks import HEALTH_CHECKS
from lbgen.engines.envoy.jwt import JWT
from lbgen.engines.envoy.l4 import UDP
from lbgen.engines.envoy.limits import BUFFERING, LIMITS, MAX_BODY
from lbgen.engines.envoy.mirrors import MIRRORS
from lbgen.engines.envoy.paths import PATHS
from lbgen.engines.envoy.rate_limits import RATE_LIMITS
from lbgen.engines.envoy.responses import RESPONSES
from lbgen.engines.envoy.retries import RETRIES
from lbgen.engines.envoy.rewrites import REDIRECTS, REWRITES
from lbgen.engines.envoy.sticky import STICKY
from lbgen.engines.envoy.timeouts import CLIENT_TIMEOUTS, TIMEOUTS
from lbgen.engines.envoy.tls import PROXY_PROTOCOL, TLS
from lbgen.engines.envoy.values import SHARED_VALUES, VALUES

FEATURES = (
    PROXY_PROTOCOL,
    TLS,
    CLIENT_TIMEOUTS,
    ACCESS_LOG,
    PATHS,
    FORWARDED_HEADERS,
    SHARED_VALUES,
    LIMITS,
    LISTENER_ACCESS,
    ROUTE_ACCESS,
    CORS,
    RATE_LIMITS,
    BASIC_AUTH,
    JWT,
    VALUES,
    FORWARD_AUTH,
    HEADERS,
    MIRRORS,
    REWRITES,
    REDIRECTS,
    RESPONSES,
    RETRIES,
    TIMEOUTS,
    MAX_BODY,
    BUFFERING,
    COMPRESSION,
    ERROR_PAGES,
    CHALLENGES,
    CONNECTIONS,
    BALANCING,
    HEALTH_CHECKS,
    STICKY,
    UDP,
)
