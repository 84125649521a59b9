#!/bin/sh
# One drive for each task of an array: sbatch --array=1-24 slurm.sh drives.txt
# On several nodes, each task on the node of its drive:
# n=0; while read -r node _; do n=$((n+1)); sbatch --array=$n --nodelist="$node" slurm.sh drives.txt; done <drives.txt
# Line N of drives.txt: node of Slurm, node of the drive, identity. One line for each array index.
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
#SBATCH --time=3-00:00:00
set -uf # no word of drives.txt is a pattern of files
line=$(sed -n "${SLURM_ARRAY_TASK_ID}p" "$1")
# shellcheck disable=SC2086
set -- $line
out="/var/lib/ssdbench/lot/$3"
# At the limit of time: stop cleanly, and queue this task again. It then continues the run.
requeue() { trap '' TERM; sudo -n ssdbench stop "$out" --wait 4m; scontrol requeue "$SLURM_JOB_ID"; }
trap requeue USR1
trap 'sudo -n ssdbench stop "$out"' TERM
# A task on another host than that of its line is refused by the identity, with nothing written.
# Inside a job of Slurm, which SLURM_JOB_ID tells, the run stays in the job, so that scancel ends it.
sudo -n SLURM_JOB_ID="$SLURM_JOB_ID" ssdbench run pessimistic --target "$2" --output "$out" \
    --destroy "$3" --attach-or-start &
run=$!
wait "$run" # also returns after a trap
wait "$run"
