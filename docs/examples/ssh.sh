#!/bin/sh
# A few drives on a few hosts by plain SSH: call it again after anything, from cron for example.
# drives.txt has a drive in each line: host, node, identity (`ssdbench drives` shows it).
set -u
status=0
while read -r host node identity; do
    # -n: ssh must not read our list. The run goes on when this connection is lost.
    ssh -n -o BatchMode=yes -- "$host" sudo -n ssdbench run pessimistic --target "$node" \
        --output "/var/lib/ssdbench/lot/$identity" --destroy "$identity" \
        --attach-or-start --detach || { echo "$host $node: exit $?" >&2; status=1; }
done < "${1:-drives.txt}"
exit "$status"
