"""A store as pandas, pyarrow, polars and DuckDB read it (docs/store.md)."""

import json
import subprocess
from pathlib import Path

import pytest

from ssdbench.export import query
from ssdbench.export import store as stores
from ssdbench.export.store import Store, added
from ssdbench.report.read import StoredRun
from tests.support.lots import a_lot
from tests.systems.conftest import required

MODEL = "Intel X25-M G2 160 GB (34 nm MLC, SATA, 2009)"
READ = """
import json, sys
import duckdb, pandas, polars, pyarrow.parquet

place = sys.argv[1]
columns = ["table_name", "run_id", "model", "metric", "metric_value", "iops_bound"]
files = f"{place}/**/*.parquet"
with_pandas = pandas.read_parquet(place)
frames = {
    "pandas": with_pandas.astype(object).where(with_pandas.notna(), None).to_dict("records"),
    "pyarrow": pyarrow.parquet.read_table(place).to_pylist(),
    "polars": polars.read_parquet(files).to_dicts(),
    "duckdb": duckdb.sql(f"SELECT * FROM '{files}'").to_arrow_table().to_pylist(),
}
names = {name: sorted(rows[0]) for name, rows in frames.items()}
rows = {
    name: sorted(json.dumps([row[column] for column in columns]) for row in rows)
    for name, rows in frames.items()
}
print(json.dumps({"names": names, "rows": rows}))
"""


@pytest.mark.timeout(300)
def test_four_readers_find_the_same_rows_and_the_full_name_of_the_model(tmp_path: Path) -> None:
    runs = []
    for path in a_lot(tmp_path / "lot", (1.0, 0.9, 1.1)):
        (path / "manifest.json").write_text("{}")
        run = StoredRun.open(path)
        target = run.result.target.model_copy(update={"model": MODEL})
        run.result = run.result.model_copy(update={"target": target})
        runs.append(added(run))
    store = Store.made(tmp_path / "store")
    stores.add(store, runs[:2])
    stores.add(store, runs[2:])

    argv = [required("python"), "-c", READ, str(store.directory)]
    done = subprocess.run(argv, text=True, capture_output=True, check=False, timeout=240)
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)

    rows = found["rows"]["pandas"]
    assert all(found["rows"][name] == rows for name in ("pyarrow", "polars", "duckdb"))
    assert all(names == found["names"]["pandas"] for names in found["names"].values())
    assert {json.loads(row)[2] for row in rows} == {MODEL}
    for table in stores.TABLES:
        (expected,) = query.ask(store, f"SELECT count(*) FROM {table}").rows
        assert sum(json.loads(row)[0] == table for row in rows) == expected[0]
