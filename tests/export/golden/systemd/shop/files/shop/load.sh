# Written by lbgen 0.1.0. The unit runs it in /run/lbgen/shop, at its start and for a reload.
# The engine's checker reads the files in a folder of their own; only what it accepts replaces what was loaded before.
set -e
rm -rf next
mkdir -p next
cp -RLf /etc/lbgen/shop/. next
cd next
haproxy -c -f haproxy.cfg
cd ..
cat >names.next <<'END'
haproxy.cfg
END
while read -r name; do mv -f "next/$name" "$name"; done <names.next
if [ -e names ]; then
  grep -vxFf names.next names | while read -r name; do rm -f "$name"; done
fi
mv -f names.next names
rm -rf next
