# Run by /bin/sh in the engine's container.
if command -v bash >/dev/null; then
  exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; printf "GET /healthz HTTP/1.1\r\nHost: lbgen-probe.invalid\r\nConnection: close\r\n\r\n" >&3; read -r _ status _ <&3; [[ $status == [23]?? ]]'
fi
exec wget -q -T 2 -O /dev/null --header "Host: lbgen-probe.invalid" "http://127.0.0.1:8080/healthz"
