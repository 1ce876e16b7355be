# machine.sh FOLDER PACKAGES NAME=PROGRAM...: systemd as process 1, in namespaces that the caller made (tests/support/machine.py).
# Its files are this host's /usr, read-only, with links in /usr/local/sbin, PACKAGES as /opt, and FOLDER/shared as /mnt.
set -e
folder=$1 packages=$2
shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$folder/root"
cd "$folder/root"
for link in /bin /sbin /lib /lib64; do if [ -L $link ]; then cp -P $link .; fi; done
mkdir -p usr etc/systemd/system etc/tmpfiles.d etc/sysctl.d var/log var/lib var/tmp run tmp proc sys dev root opt mnt old
mount --bind -o ro /usr usr
mount --bind "$folder/shared" mnt
mount -t tmpfs tmpfs usr/local/sbin
for each; do ln -s "${each#*=}" "usr/local/sbin/${each%%=*}"; done
mount --bind -o ro "$packages" opt
for name in passwd group nsswitch.conf ld.so.cache ld.so.conf ld.so.conf.d hosts ssl alternatives; do
	if [ -e /etc/$name ]; then cp -a /etc/$name etc; fi
done
touch etc/machine-id
ln -s /run var/run
chmod 1777 tmp var/tmp
mount -t proc proc proc
mount -t sysfs sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
	for name in systemd memory pids; do
		mkdir sys/fs/cgroup/$name
		mount -t cgroup -o "$(if [ $name = systemd ]; then echo none,name=; fi)$name" cgroup sys/fs/cgroup/$name
	done
fi
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
	touch dev/$name
	mount --bind /dev/$name dev/$name
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 tmpfs run
for name in systemd-udevd systemd-udev-trigger systemd-modules-load systemd-sysctl systemd-remount-fs; do
	ln -s /dev/null etc/systemd/system/$name.service
done
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >etc/systemd/system/machine.target
pivot_root . old
umount -l /old
exec env -i container=lbgen PATH=/usr/local/sbin:/usr/sbin:/usr/bin /lib/systemd/systemd --system --unit=machine.target
