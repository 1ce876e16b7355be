# Run by /bin/sh in the engine's container.
set -e
cp -RLf /etc/lbgen/* .
set +e
exec haproxy -W -db -f haproxy.cfg
