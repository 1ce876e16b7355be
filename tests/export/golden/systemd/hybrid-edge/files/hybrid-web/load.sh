# Written by lbgen 0.1.0. The unit runs it in /run/lbgen/hybrid-web, at its start and for a reload.
# The engine's checker reads the files in a folder of their own; only what it accepts replaces what was loaded before.
set -e
rm -rf next
mkdir -p next routes
cp -RLf /etc/lbgen/hybrid-web/. next
cd next
nginx -p /run/lbgen/hybrid-web/next/ -e stderr -c nginx.conf -t
cd ..
cat >names.next <<'END'
nginx.conf
routes/api.conf
END
while read -r name; do mv -f "next/$name" "$name"; done <names.next
if [ -e names ]; then
  grep -vxFf names.next names | while read -r name; do rm -f "$name"; done
fi
mv -f names.next names
rm -rf next
ln -sf /var/log/lbgen/hybrid-web.log access.log
