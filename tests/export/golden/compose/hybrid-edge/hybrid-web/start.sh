# Run by /bin/sh in the engine's container.
set -e
sh /etc/lbgen/load.sh
set +e
exec nginx -p /run/lbgen/ -e stderr -c nginx.conf -g 'daemon off;'
