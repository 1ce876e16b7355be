# Written by lbgen 0.1.0. Run by a shell in /run/lbgen, before the engine starts and for a reload.
# The engine's checker reads the files in a folder of their own; only what it accepts replaces what was loaded before.
set -e
names='haproxy.cfg
'
rm -rf next
mkdir -p next 
cp -RLf /etc/lbgen/. next
cd next
haproxy -c -f haproxy.cfg
cd ..
printf %s "$names" | while read -r name; do mv -f "next/$name" "$name"; done
if [ -e names ]; then
	while read -r name; do
		case "
$names" in *"
$name
"*) ;; *) rm -f "$name" ;; esac
	done <names
fi
printf %s "$names" >names
rm -rf next
