#!/bin/sh
# lbgen 0.1.0, topology l4-ipvs-direct.
# Run it as root on 10.77.2.12, whose endpoints listen on every address: it gets the listeners' addresses, for which
# only the balancer answers others.
set -e
if ! sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2; then
	echo "/proc/sys is read-only here, as in a container: rules of the table arp lb_l4-ipvs-direct_ipvs do the same"
	nft -f - <<-END
		add table arp lb_l4-ipvs-direct_ipvs
		delete table arp lb_l4-ipvs-direct_ipvs
		table arp lb_l4-ipvs-direct_ipvs {
			chain lb_in {
				type filter hook input priority 0; policy accept;
				arp operation request arp daddr ip 10.77.2.100 drop
			}
			chain lb_out {
				type filter hook output priority 0; policy accept;
				arp saddr ip 10.77.2.100 arp saddr ip set 10.77.2.12
			}
		}
	END
fi
ip address replace 10.77.2.100/32 dev lo
