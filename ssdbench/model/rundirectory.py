"""Name the files of a run directory and their columns; docs/run-directory.md describes them."""

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
RESULT = "result.json"
STAGES = "stages"  # holds a directory for each stage
STAGE_RESULT = "stage.json"
UNIT_RECORD = "unit.json"  # result of one finished unit of a stage
SECONDS = "seconds.csv"
HISTOGRAMS = "histograms.npz"
HOST_SERIES = "host.csv"
TEMPERATURE = "temperature.csv"
POWER = "power.csv"
CELLS = "cells.csv"
RATES = "rates.csv"
FIO = "fio"  # holds the files of one start of fio
REPORT = "report.html"
LIVE = "live.html"  # only if a user asked for it; follows the run until its end
RESULTS_CSV = "results.csv"
RESULTS_PARQUET = "results.parquet"
SUMMARY_CSV = "summary.csv"
ARTIFACTS_CSV = "artifacts.csv"
TARGETS_CSV = "targets.csv"  # only if the profile has targets
HOST_BEFORE = "host-before.json"
HOST_AFTER = "host-after.json"
GATE, ROOM = ".gate", ".room"  # locks: see `ssdbench.engine.hostlock`

SECONDS_COLUMNS = ("t_s", "duration_s", "read_ios", "write_ios", "read_bytes", "write_bytes")
PHASE = "phase"  # the last column of seconds.csv, host.csv and temperature.csv
MEASURE = "measure"  # the phase that is measured
