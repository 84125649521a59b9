"""Names the files in a run directory and the columns in them.

docs/run-directory.md says what each of them holds.
"""

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
RESULT = "result.json"
STAGES = "stages"  # the directory that holds one for each stage
STAGE_RESULT = "stage.json"
UNIT_RECORD = "unit.json"  # what one finished unit of a stage measured
SECONDS = "seconds.csv"
HISTOGRAMS = "histograms.npz"
HOST_SERIES = "host.csv"
TEMPERATURE = "temperature.csv"
CELLS = "cells.csv"
RATES = "rates.csv"
FIO = "fio"  # the directory that holds a start of fio
REPORT = "report.html"
RESULTS_CSV = "results.csv"
RESULTS_PARQUET = "results.parquet"
SUMMARY_CSV = "summary.csv"
ARTIFACTS_CSV = "artifacts.csv"
TARGETS_CSV = "targets.csv"  # only where the profile has targets
HOST_BEFORE = "host-before.json"
HOST_AFTER = "host-after.json"
GATE, ROOM = ".gate", ".room"  # locks: see `ssdbench.engine.hostlock`

SECONDS_COLUMNS = ("t_s", "duration_s", "read_ios", "write_ios", "read_bytes", "write_bytes")
PHASE = "phase"  # the last column of seconds.csv, host.csv and temperature.csv
MEASURE = "measure"  # the phase that counts
