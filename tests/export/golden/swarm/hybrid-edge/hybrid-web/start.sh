# Run by /bin/sh in the engine's container.
set -e
cp -RLf /etc/lbgen/* .
ln -sf /dev/stdout access.log
set +e
end() {
  sleep 12
  kill -QUIT $!
}
trap end QUIT
nginx -p /tmp/ -e stderr -c nginx.conf -g 'daemon off;' &
wait $!
wait $!
