"""Shell words that the experiments share."""

# The drives, one row of results, and fio's terse output (version 3): 8 and 49 are the rates, 16
# and 57 the mean completion latencies in us.
TOOLS = """
echo 1 > /proc/sys/kernel/printk
F=/sys/kernel/config/ssdb_flash/ssd0; T=/sys/kernel/config/ssdb_tmerge/tm0
S=/sys/kernel/config/ssdb_slam/a
put() { for pair in "${@:2}"; do echo "${pair#*=}" > $1/${pair%%=*}; done; }
row() { echo "row $1 $2 $3"; }
count() { awk -v n=$2 '$1 == n {print $2}' $1/counters; }
rate() { awk -F';' '{print $8 + $49}' /run/terse; }
latency_us() { awk -F';' '{print $16 + $57}' /run/terse; }
# A guest that waits for a file of the host is idle, and its clock leaps to its next timer: what is
# timed from outside runs from memory, and the shell itself reads the clock.
own() { mkdir -p /run/own; for b in "$@"; do cp $(command -v $b) /run/own/
  cp $(ldd $(command -v $b) | grep -o '/[^ ]*') /run/own/; done; }
mine() { LC_ALL=C /run/own/ld-linux-x86-64.so.2 --inhibit-cache --library-path /run/own \
  /run/own/"$@"; }
us() { echo ${EPOCHREALTIME/[.,]/}; }
load() { fio --name=l --direct=1 --bs=4k --randseed=$SEED --norandommap --time_based \
  --runtime=${RUN:-300ms} --thread --group_reporting --minimal "$@" > /run/terse; }
drive() { mkdir $F; put $F capacity_bytes=268435456 ftl=direct wbuf_bytes=0 t_read_ns=0 \
  t_prog_ns=0 fw_read_ns=0 fw_write_ns=0 store=0 "$@" power=1; }
"""

# A disk behind the SCSI layer that moves no data and needs no time: its name is in DISK.
SCSI_DISK = """
scsi_disk() { modprobe scsi_debug dev_size_mb=64 delay=0 ndelay=0 fake_rw=1 max_queue=$1 \\
    host_max_queue=$1
  until DISK=$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*:*/block 2> /dev/null)
    [ -n "$DISK" ]; do sleep 0.1; done
  [ -e /dev/$DISK ] || mknod /dev/$DISK b $(tr : ' ' < /sys/block/$DISK/dev)
  echo none > /sys/block/$DISK/queue/scheduler; }
"""
# Where caches are dropped, fio itself would come from the host again while the guest is idle.
FIO_IN_MEMORY = """
own fio dd sync
fio() { mine fio "$@"; }
"""


def assignments(values: dict[str, int | str]) -> str:
    """`name=value` words for `put` and `drive`."""
    return " ".join(f"{name}={value}" for name, value in values.items())
