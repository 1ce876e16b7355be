#!/bin/sh
# lbgen 0.1.0, topology l4-ipvs-direct.
# Run it as root on 10.77.2.11, whose endpoints listen on every address: it gets the listeners' addresses, for which
# only the balancer answers others.
set -e
sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
ip address replace 10.77.2.100/32 dev lo
