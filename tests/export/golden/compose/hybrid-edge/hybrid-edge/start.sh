# Run by /bin/sh in the engine's container.
set -e
sh /etc/lbgen/load.sh
set +e
exec haproxy -W -db -f haproxy.cfg
