#!/bin/sh
# A few drives on a few hosts by plain SSH: call it again after anything, from cron for example.
# drives.txt has a drive in each line: host, node, identity (`ssdbench drives` shows it).
set -u
# The shell over there reads all words again, and a drive may say anything of itself.
quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
status=0
while read -r host node identity; do
    case $identity in
        "" | */*) echo "$host $node: '$identity' is no name of a directory" >&2; status=1; continue ;;
    esac
    # -n: ssh must not read our list. The run goes on when this connection is lost.
    ssh -n -o BatchMode=yes -- "$host" sudo -n ssdbench run pessimistic --target "$(quoted "$node")" \
        --output "$(quoted "/var/lib/ssdbench/lot/$identity")" --destroy "$(quoted "$identity")" \
        --attach-or-start --detach || { echo "$host $node: exit $?" >&2; status=1; }
done < "${1:-drives.txt}"
exit "$status"
