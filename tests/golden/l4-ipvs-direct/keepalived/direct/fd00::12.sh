#!/bin/sh
# lbgen 0.1.0, topology l4-ipvs-direct.
# Run it as root on fd00::12, whose endpoints listen on every address: it gets the listeners' addresses, for which
# only the balancer answers others.
set -e
ip -6 address replace fd00::100/128 dev lo nodad
