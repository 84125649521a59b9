#!/bin/sh
# One drive for each task of an array: sbatch --array=1-24 slurm.sh drives.txt
# Line N of drives.txt: node of Slurm, node of the drive, identity. One line for each array index.
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --time=3-00:00:00
set -uf # no word of drives.txt is a pattern of files
line=$(sed -n "${SLURM_ARRAY_TASK_ID}p" "$1")
# shellcheck disable=SC2086
set -- $line
out="/var/lib/ssdbench/lot/$3"
# The line names the host, so the task must be there: --nodelist on the command line, or a
# reservation. A task on another host is refused by the identity, with nothing written.
trap 'ssdbench stop "$out"; wait' TERM
# Inside a job of Slurm the run stays in the job, so that scancel ends it.
ssdbench run pessimistic --target "$2" --output "$out" --destroy "$3" --attach-or-start &
wait $!
