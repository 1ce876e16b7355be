"""The features of nginx, in the order of their directives: one line for each, in whose file is all about it."""

from __future__ import annotations

from lbgen.engines.nginx.access_log import ACCESS_LOG
from lbgen.engines.nginx.compression import COMPRESSION
from lbgen.engines.nginx.headers import HEADERS
from lbgen.engines.nginx.limits import CLIENT_ADDRESSES, LIMITS
from lbgen.engines.nginx.paths import PATHS
from lbgen.engines.nginx.retries import RETRIES
from lbgen.engines.nginx.timeouts import TIMEOUTS
from lbgen.engines.nginx.tls import TLS
from lbgen.engines.nginx.upstream_protocols import PROTOCOLS

FEATURES = (TLS, ACCESS_LOG, HEADERS, PATHS, LIMITS, CLIENT_ADDRESSES, COMPRESSION, RETRIES, TIMEOUTS, PROTOCOLS)
