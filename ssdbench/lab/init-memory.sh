#!/bin/busybox sh
# First process of a guest that lives in memory: the command, then its answer to the host.
/bin/busybox mkdir -p /busybox /proc /sys /dev /run /tmp /root /mnt
/bin/busybox --install -s /busybox
export PATH=/bin:/busybox HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
for place in /run /tmp /dev/shm; do mount -t tmpfs tmpfs $place; done
while read -r module; do
	options=
	[ "$module" = nvme-core.ko ] && options=multipath=N
	# shellcheck disable=SC2086 # none or one word
	insmod "/modules/$module" $options || echo "lab: insmod $module failed"
done < /modules/order
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t configfs configfs /sys/kernel/config 2>/dev/null
echo /busybox/modprobe > /proc/sys/kernel/modprobe
ip link set lo up 2>/dev/null
echo 0 > /proc/sys/kernel/hung_task_timeout_secs 2>/dev/null
cut -d' ' -f1 /proc/uptime > /run/booted_s
sh /command < /dev/null > /run/stdout 2> /run/stderr
echo $? > /run/status
dmesg > /run/dmesg
while read -r module; do
	insmod "/modules/$module" || echo "lab: insmod $module failed"
done < /modules/late
for serial in /sys/block/vd*/serial; do
	[ "$(cat "$serial")" = ssdbench-answer ] && disk=${serial%/serial}
done
tar -cf "/dev/${disk##*/}" -C /run booted_s stdout stderr dmesg status ||
	echo "lab: the answer could not be written"
sync
echo o > /proc/sysrq-trigger
sleep 60
