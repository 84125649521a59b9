#!/bin/busybox sh
# First process of the guest: the host's root, read-only, under a writable layer in memory; then
# commands, whose output and status go to the shared directory /run/ssdbench-lab, each to its own.
/bin/busybox mkdir -p /bin /proc /sys /dev /share /layer /root
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do
	# The kernel's command line is for its own drivers; insmod does not know of it.
	options='' name=$(echo "${module%.ko}" | tr - _)
	for word in $(cat /proc/cmdline); do
		case $word in "$name".*) options="$options ${word#*.}" ;; esac
	done
	# shellcheck disable=SC2086 # words of it
	insmod "/modules/$module" $options || echo "lab: insmod $module failed"
done < /modules/order
mount -t virtiofs host /share || { echo "lab: no shared file system"; poweroff -f; }
mount -t tmpfs -o size=75% tmpfs /layer
mkdir -p /layer/upper /layer/work
mount -t overlay -o "lowerdir=/share/root,upperdir=/layer/upper,workdir=/layer/work" overlay /root ||
	{ echo "lab: no overlay"; poweroff -f; }
mkdir -p /root/proc /root/sys /root/dev /root/tmp /root/run /root/usr/lib/modules
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -t devtmpfs devtmpfs /root/dev
mkdir -p /root/dev/pts /root/dev/shm
for pair in fd=fd stdin=fd/0 stdout=fd/1 stderr=fd/2; do
	ln -s "/proc/self/${pair#*=}" "/root/dev/${pair%%=*}"
done
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
mount -t tmpfs tmpfs /root/run
mount -t debugfs debugfs /root/sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs /root/sys/kernel/tracing 2>/dev/null
mount -t configfs configfs /root/sys/kernel/config 2>/dev/null
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup 2>/dev/null
release=$(uname -r)
mkdir -p "/root/usr/lib/modules/$release" /root/run/ssdbench-lab
mount --bind "/share/modules/$release" "/root/usr/lib/modules/$release"
mount --bind /share/job /root/run/ssdbench-lab
ip link set lo up 2>/dev/null
echo 0 > /proc/sys/kernel/hung_task_timeout_secs 2>/dev/null
cat > /root/run/second <<'END'
# In the new root: this process is the one whose root the kernel takes to start modprobe.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
job=/run/ssdbench-lab number=1
poweroff_now() {
	sync
	echo o > /proc/sysrq-trigger
	while :; do :; done  # a program could not be read any more: the host's files go first
}
[ -e $job/off ] || exec 3<> /dev/ttyS1
# A kernel that complained on its way up is no place for a command: the lab boots another.
dmesg | grep -Ef $job/trouble > $job/complaint && poweroff_now
cut -d' ' -f1 /proc/uptime > $job/booted_s
while :; do
	place=$job/$number
	until [ -e $place/command ]; do
		[ -e $job/off ] && break 2
		read -r _ <&3 # rung when there is something to look for
	done
	/bin/sh $place/command < /dev/null > $place/stdout 2> $place/stderr 3<&-
	echo $? > $place/status.new
	dmesg -c > $place/dmesg
	mv $place/status.new $place/status
	number=$((number + 1))
done
poweroff_now
END
exec switch_root /root /bin/sh /run/second
