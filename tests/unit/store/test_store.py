"""A store: what is added is answered, damage and forgery are found, nothing else is reached."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.errors import UsageError
from ssdbench.export import query
from ssdbench.export import store as store_module
from ssdbench.export.store import Store, added
from ssdbench.report.read import StoredRun
from tests.support.documents import checked
from tests.support.lots import PLANTED_IOPS, a_lot

SHARES = (1.0, 0.9, 1.1)
WORST = "SELECT serial, metric_value FROM repeats WHERE metric = 'iops' LIMIT 1"


@pytest.fixture(scope="module")
def lot(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return whole(a_lot(tmp_path_factory.mktemp("lot"), SHARES))


def whole(runs: list[Path]) -> list[Path]:
    for path in runs:
        (path / "manifest.json").write_text("{}")
    return runs


@pytest.fixture(scope="module")
def kept(lot: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two parts of one model and month: one of two runs, one of one."""
    store = tmp_path_factory.mktemp("store") / "s"
    assert run(["store", "add", str(store), str(lot[0]), str(lot[1])]) == 0
    assert run(["store", "add", str(store), *map(str, lot)]) == 0
    return store


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    shutil.copytree(kept, tmp_path / "s")
    return tmp_path / "s"


def one(store: Path, sql: str) -> tuple[object, ...]:
    return query.ask(Store.open(store), sql).rows[0]


def test_what_was_added_is_answered_also_after_compaction(
    kept: Path, store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bounds = "SELECT count(*), max(iops), min(iops_bound) FROM points"
    tables = "SELECT count(*), min(serial) FROM drives"
    before = one(kept, bounds), one(kept, tables), one(kept, "SELECT count(*) FROM repeats")

    assert before[0] == (
        3,
        pytest.approx(1.1 * PLANTED_IOPS),
        pytest.approx(0.9 * 0.98 * PLANTED_IOPS),
    )
    assert before[1] == (3, "S0001")
    assert len(Store.open(store).parts()) == 2
    assert run(["store", "compact", str(store)]) == 0
    assert len(Store.open(store).parts()) == 1
    assert (one(store, bounds), one(store, tables)) == before[:2]
    assert one(store, "SELECT count(*) FROM repeats") == before[2]
    capfd.readouterr()
    assert run(["store", "check", str(store), "--json"]) == 0
    assert checked(capfd.readouterr().out, "store-check")["runs"] == 3
    assert run(["query", "SELECT 1 AS a, NULL AS b", "--store", str(store), "--json"]) == 0
    assert checked(capfd.readouterr().out, "query")["rows"] == [[1, None]]


def first(store: Path, name: str) -> Path:
    return sorted(store.rglob(name))[0]


def test_a_store_may_have_as_many_parts_as_it_says(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_PARTS", 2)
    assert len(Store.open(store).parts()) == 2

    monkeypatch.setattr(store_module, "MOST_PARTS", 1)
    with pytest.raises(UsageError, match="has more than 1 parts; each `store add` makes one"):
        Store.open(store).parts()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a row": (lambda s: flip(first(s, "repeats.parquet")), "SHA-256 is not the one"),
    "the runs": (lambda s: flip(first(s, "_runs.json")), "SHA-256 is not the one"),
    "a table gone": (lambda s: first(s, "points.parquet").unlink(), "is damaged or was changed"),
    "half a part": (lambda s: first(s, "_part.json").unlink(), "is an incomplete part"),
    "_part.json": (lambda s: first(s, "_part.json").write_text("{}"), "is damaged"),
    "_store.json": (lambda s: (s / "_store.json").write_text("{"), "is damaged"),
    "a newer form": (lambda s: (s / "_store.json").write_text('{"store": 3}'), "reads up to 2"),
    "no store": (lambda s: (s / "_store.json").unlink(), "is not a store"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_a_sentence_and_no_answer(
    case: str, store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    do, sentence = DAMAGE[case]
    do(store)

    assert run(["query", WORST, "--store", str(store)]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert run(["store", "check", str(store)]) != 0


def test_what_a_writer_left_half_counts_for_nothing_and_goes(store: Path, lot: list[Path]) -> None:
    part = Store.open(store).parts()[0].path
    shutil.copytree(part, part.with_name(".0123456789abcdef.draft"))

    answer = query.ask(Store.open(store), "SELECT count(*) FROM drives")
    assert answer.rows == ((3,),)
    assert "is incomplete and is ignored" in answer.notes[0]
    assert query.check(Store.open(store)) != []
    assert run(["store", "add", str(store), str(lot[0])]) == 0
    assert query.check(Store.open(store)) == []


def test_a_writer_that_is_interrupted_leaves_nothing_half(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module, "_copy", stop)
    with pytest.raises(KeyboardInterrupt):
        store_module.compact(Store.open(store))

    assert query.check(Store.open(store)) == []


def test_a_compaction_that_was_cut_before_it_removed_the_old_counts_once(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr("shutil.rmtree", lambda path: None)
        store_module.compact(Store.open(store))

    assert len(list(store.rglob("_part.json"))) == 3
    assert one(store, "SELECT count(*) FROM drives") == (3,)
    store_module.compact(Store.open(store))
    assert len(list(store.rglob("_part.json"))) == 1


def test_a_store_below_any_name_is_read_and_no_neighbour_of_it(store: Path, tmp_path: Path) -> None:
    odd = tmp_path / "lot [s]*?'"
    shutil.copytree(store, tmp_path / "lot s-x'")
    store.rename(odd)

    assert one(odd, "SELECT count(*) FROM drives") == (3,)
    assert query.check(Store.open(odd)) == []
    assert store_module.compact(Store.open(odd)) == 1
    assert one(odd, "SELECT count(*) FROM drives") == (3,)


@pytest.mark.parametrize("name", ["*", "month=*", "2026-1?"])
def test_a_directory_that_no_store_makes_is_told(name: str, store: Path, tmp_path: Path) -> None:
    month = next(store.glob("*/*-*"))
    shutil.copytree(month, tmp_path / "elsewhere")
    (month.parent / name).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="is not a directory of a store"):
        query.ask(Store.open(store), "SELECT 1")


def test_no_part_goes_where_a_link_leads_or_a_damaged_time_says(
    store: Path, lot: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "new").mkdir()
    (run_of_lot,) = [StoredRun.open(lot[0])]
    one_more = added(run_of_lot)
    new = Store.made(tmp_path / "new")
    slug = next(store.glob("*/")).name
    (new.directory / slug).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="is not a directory of a store"):
        store_module.add(new, [one_more])
    (new.directory / slug).unlink()
    run_of_lot.result = run_of_lot.result.model_copy(update={"started_at": "/../../x"})
    with pytest.raises(UsageError, match="is not a month"):
        store_module.add(new, [one_more])
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in new.directory.iterdir() if path.name[0] != "."] == ["_store.json"]


def test_a_table_that_is_none_is_a_sentence_though_its_hash_is_right(
    store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    part = Store.open(store).parts()[0].path
    (part / "points.parquet").write_bytes(b"no table")
    about = json.loads((part / "_part.json").read_text())
    about["files"]["points.parquet"] = store_module._hash(part / "points.parquet")
    (part / "_part.json").write_text(json.dumps(about))

    assert run(["store", "check", str(store)]) == 1
    assert "a table cannot be read" in capfd.readouterr().out
    assert run(["store", "compact", str(store)]) == 2
    assert "a table cannot be read" in capfd.readouterr().err


def test_rows_of_a_run_that_nothing_proves_are_told_though_all_hashes_are_right(
    store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    part = Store.open(store).parts()[0].path
    runs = json.loads((part / "_runs.json").read_text())
    name = runs["runs"][0]["run_id"]
    runs["runs"][0]["run_id"] = "another"
    (part / "_runs.json").write_text(json.dumps(runs))
    about = json.loads((part / "_part.json").read_text())
    about["files"]["_runs.json"] = store_module._hash(part / "_runs.json")
    (part / "_part.json").write_text(json.dumps(about))

    assert run(["store", "check", str(store)]) == 1
    said = capfd.readouterr().out
    assert f"points.parquet: has rows of {name}, which is not a run of this part" in said
    assert "drives.parquet: has no row of another" in said


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "COPY points TO '/tmp/x.csv'",
        "SELECT 1; SELECT 2",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "ATTACH '/tmp/x.db'",
        "DROP VIEW points",
        "SELEC",
        "",
    ],
)
def test_a_query_reaches_the_tables_and_nothing_else(kept: Path, sql: str) -> None:
    with pytest.raises(UsageError, match=r"query failed|one SELECT"):
        query.ask(Store.open(kept), sql)


def test_nothing_that_a_query_is_confined_by_can_be_set_again(kept: Path) -> None:
    names = ("enable_external_access", "lock_configuration", "memory_limit")
    shown = ", ".join(f"current_setting('{name}')" for name in names)

    (row,) = query.ask(Store.open(kept), f"SELECT {shown}").rows

    assert row[:2] == (False, True) and row[2] == "476.8 MiB"  # 900 MB


# What DuckDB takes for a value or for many; what Python takes for rows and for a table.
GREEDY = [
    "SELECT repeat('x', 2000000000)",
    "SELECT repeat('x', 300000000)",
    "SELECT list(range) FROM range(100000000)",
    "SELECT range, repeat('x', 1000) FROM range(10000000)",
    "SELECT * FROM range(50000000)",
]


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize("sql", GREEDY)
def test_no_query_takes_more_than_the_memory_that_is_promised(
    sql: str, words: list[str], kept: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "ssdbench", "query", "--store", str(kept), *words, sql]
    with (
        (tmp_path / "err").open("wb") as said,
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=said) as process,
    ):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)

    told = (tmp_path / "err").read_text()
    assert process.returncode == 2, told
    assert "needs more than 900 MB" in told or "is larger than 24 MiB" in told
    assert used.ru_maxrss * 1024 < 900e6


def test_runs_of_another_method_are_left_out_and_said_so(store: Path, tmp_path: Path) -> None:
    (result,) = whole(a_lot(tmp_path / "new", [1.0], method=7))
    other = StoredRun.open(result)
    other.result = other.result.model_copy(update={"run_id": "newer", "method": 7})
    store_module.add(Store.open(store), [added(other)])

    answer = query.ask(Store.open(store), "SELECT count(*) FROM drives")
    assert (answer.rows, answer.method) == (((1,),), 7)
    assert answer.notes == ("left out: 3 runs of method 1; use --method to query them",)
    assert query.ask(Store.open(store), "SELECT count(*) FROM drives", method=1).rows == ((3,),)
    with pytest.raises(UsageError, match="no run of method 3"):
        query.ask(Store.open(store), "SELECT 1", method=3)


def test_a_store_of_an_older_version_lacks_a_column_and_is_still_read(store: Path) -> None:
    from ssdbench.report.database import connection

    part = Store.open(store).parts()[0]
    path = part.path / "repeats.parquet"
    with connection(threads=1) as database:
        database.execute(
            f"COPY (SELECT * EXCLUDE (span_percent, identity) FROM read_parquet('{path}', "
            "hive_partitioning=false)) "
            f"TO '{path}.new' (FORMAT parquet)"
        )
    Path(f"{path}.new").replace(path)
    about = json.loads((part.path / "_part.json").read_text())
    about["files"]["repeats.parquet"] = store_module._hash(path)
    (part.path / "_part.json").write_text(json.dumps(about))

    total, named = one(store, "SELECT count(*), count(identity) FROM repeats")
    assert 0 < named < total  # type: ignore[operator]
    store_module.compact(Store.open(store))
    assert one(store, "SELECT count(*), count(identity) FROM repeats") == (total, named)


def as_format_1(store: Path) -> None:
    """Name the directories of a store, and its format, as versions before format 2 did."""
    for month in list(store.glob("[!m]*/*-*")):
        (store / f"model={month.parent.name}").mkdir(exist_ok=True)
        month.rename(store / f"model={month.parent.name}" / f"month={month.name}")
    for file in list(store.rglob("_*.json*")):
        file.rename(file.with_name(file.name[1:]))
    (store / "store.json").write_text('{"store": 1}')
    for about in store.rglob("part.json"):
        about.write_text(about.read_text().replace("_runs.json", "runs.json"))


def read_whole(store: Path) -> list[tuple[object, ...]]:
    """Read all files of a store at once, as a program does that does not know stores."""
    from ssdbench.report.database import connection, fetch_all

    with connection(threads=1) as database:
        files = f"read_parquet('{store}/**/*.parquet')"
        query = f"SELECT table_name, model, count(*) FROM {files} GROUP BY ALL ORDER BY ALL"
        return list(fetch_all(database, query))


def test_a_program_that_reads_the_whole_directory_finds_the_model_and_every_row(
    tmp_path: Path,
) -> None:
    model = "Intel X25-M G2 160 GB (34 nm MLC, SATA, 2009)"
    lot = whole(a_lot(tmp_path / "lot", SHARES))
    given = []
    for path in lot:
        one_run = StoredRun.open(path)
        named = one_run.result.target.model_copy(update={"model": model})
        one_run.result = one_run.result.model_copy(update={"target": named})
        given.append(added(one_run))
    store = tmp_path / "s"
    store_module.add(Store.made(store), given)
    counts = {name: one(store, f"SELECT count(*) FROM {name}")[0] for name in store_module.TABLES}

    found = read_whole(store)

    assert counts["drives"] == 3
    assert found == [(name, model, count) for name, count in sorted(counts.items()) if count]


def test_a_store_of_format_1_is_read_added_to_and_renamed_by_a_compaction(
    store: Path, lot: list[Path]
) -> None:
    before = read_whole(store)
    as_format_1(store)
    assert not list(store.rglob("_*"))

    assert one(store, "SELECT count(*) FROM drives") == (3,)
    assert query.check(Store.open(store)) == []
    assert run(["store", "add", str(store), str(lot[0])]) == 0
    assert store_module.compact(Store.open(store)) == 1
    assert query.check(Store.open(store)) == []
    assert read_whole(store) == before
    as_format_1(store)
    assert store_module.compact(Store.open(store)) == 0  # one part, which was written again
    assert not list(store.glob("model=*/*/*/"))
    assert [path.name for path in store.glob("*.json")] == ["_store.json"]
    assert read_whole(store) == before


def test_a_list_of_runs_that_was_put_beside_the_checked_one_is_not_read(store: Path) -> None:
    part, *_ = Store.open(store).parts()
    (part.path / "runs.json").write_text('{"runs": []}')

    assert len(part.runs()) == part.count > 0


def test_another_result_under_a_known_name_is_refused(store: Path, lot: list[Path]) -> None:
    forged = StoredRun.open(lot[0])
    one_more = added(forged)
    changed = type(one_more)(forged, "0" * 64, one_more.manifest_sha256)

    with pytest.raises(UsageError, match="with another result"):
        store_module.add(Store.open(store), [changed])
    assert len(Store.open(store).parts()) == 2


def test_only_what_a_known_key_signed_is_taken(
    store: Path, lot: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("host", "stranger"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(key, check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"r1n1@example.org {(tmp_path / 'host.pub').read_text()}")
    copy = shutil.copytree(lot[2], tmp_path / "run")
    argv = ["store", "add", str(tmp_path / "new"), str(copy), "--signers", str(signers)]

    def sign(key: str) -> None:
        (copy / "result.json.sig").unlink(missing_ok=True)
        words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "ssdbench", "-f", str(tmp_path / key)]
        subprocess.run([*words, str(copy / "result.json")], check=True, capture_output=True)

    assert run(argv) == 2
    assert "is not signed" in capfd.readouterr().err
    sign("stranger")
    assert run(argv) == 2
    assert "signed by a key that is not in" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()
    sign("host")
    assert run(argv) == 0
    assert one(tmp_path / "new", "SELECT signed_by FROM drives") == ("r1n1@example.org",)

    check = ["store", "check", str(store), "--signers", str(signers)]
    assert run(check) == 1
    assert run(["store", "sign", str(store), "--key", str(tmp_path / "host")]) == 0
    assert run(check) == 0
    part = first(store, "_part.json")  # a forger keeps the hashes right, and has no key
    part.write_text(part.read_text() + " ")
    capfd.readouterr()
    assert run(check) == 1
    assert "is not what r1n1@example.org signed" in capfd.readouterr().out
