# Run by /bin/sh in the engine's container.
set -e
cp -RLf /etc/lbgen/* .
ln -sf /dev/stdout access.log
set +e
exec nginx -p /tmp/ -e stderr -c nginx.conf -g 'daemon off;'
