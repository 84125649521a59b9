"""Shipped loads have the sizes, mixes and depths of their sources, and are found by their names."""

from pathlib import Path

import pytest

from ssdbench.cli.inputs import read_profile, with_job_files
from ssdbench.model.loading import load_profile
from ssdbench.model.profile.inside import ProbeName, Probes
from ssdbench.model.profile.streams import FioJobs, Locality, Mix, MixStream

ROOT = Path(__file__).parents[2]
WITHIN = 0.05  # of the source's figure

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10


def measures(name: str) -> dict[str, Mix | FioJobs]:
    """Return the mixes and job files of a shipped profile by their names."""
    path = ROOT / "profiles" / f"{name}.yaml"
    profile = load_profile(with_job_files(path.read_text(), path), str(path))
    stages = [measure.stage for measure in profile.measure]
    return {stage.called: stage for stage in stages if isinstance(stage, Mix | FioJobs)}


def streams(name: str, mix: str) -> dict[str, MixStream]:
    found = measures(name)[mix]
    assert isinstance(found, Mix)
    return {stream.name: stream for stream in found.streams}


def near(figure: float) -> object:
    return pytest.approx(figure, rel=WITHIN)


def mean_bytes(stream: MixStream) -> float:
    return sum(size * share for size, share in stream.sizes.items()) / 100


def test_a_kv_cache_has_the_mix_and_the_sizes_of_mlperf_storage() -> None:
    (cache,) = streams("server-kvcache", "kvcache-peak").values()

    assert cache.read_percent == near(100 * 6825 / 7680)
    assert mean_bytes(cache) == near(6312.818 * MIB / 50532.398)  # of reads: MiB/s and IOPS
    assert mean_bytes(cache) == near(903.869 * MIB / 7270.274)  # of writes
    assert cache.pattern is Locality.RANDOM and cache.iodepth == 32


def test_a_kv_cache_has_the_rates_that_were_traced() -> None:
    found = streams("server-kvcache", "kvcache-day")
    reads, writes = found["reads"], found["writes"]

    assert (reads.read_percent, writes.read_percent) == (100, 0)
    assert reads.rate_mb_per_s == near(2.0 * GIB / 1e6)
    assert writes.rate_mb_per_s == near(11.0 * MIB / 1e6)
    assert mean_bytes(reads) == near(128 * KIB) and mean_bytes(writes) == near(128 * KIB)


@pytest.mark.parametrize(("mix", "queries"), [("vector-peak", 32), ("vector-single", 1)])
def test_vector_search_reads_as_diskann_does(mix: str, queries: int) -> None:
    (search,) = streams("server-vector", mix).values()

    assert search.read_percent == near(99.99)
    assert search.sizes == {4096: 100} and search.pattern is Locality.RANDOM
    assert (search.iodepth, search.numjobs) == (2, queries)  # beam width, queries at once


@pytest.mark.parametrize(
    ("mix", "read"), [("checkpoint-write", 0), ("checkpoint-read", 100), ("training", 0)]
)
def test_a_checkpoint_has_the_requests_of_deepspeed(mix: str, read: int) -> None:
    *_, checkpoint = streams("server-checkpoint", mix).values()

    assert checkpoint.sizes == {1048576: 100} and checkpoint.read_percent == read
    assert (checkpoint.iodepth, checkpoint.numjobs) == (8, 1)
    assert checkpoint.pattern is Locality.SEQUENTIAL
    if not read:
        assert checkpoint.flush_every is not None
        assert checkpoint.flush_every * MIB == near(105e9 / 8)  # one file of Llama 3 8B


def test_training_reads_as_resnet_50_of_mlperf_storage() -> None:
    *readers, _ = streams("server-checkpoint", "training").values()

    assert len(readers) == 8
    assert sum(reader.rate_mb_per_s or 0 for reader in readers) == near(400 * 114660.07 / 0.224e6)
    for reader in readers:
        assert reader.sizes == {262144: 100} and reader.read_percent == 100
        assert reader.pattern is Locality.SEQUENTIAL


def test_the_endurance_load_has_the_lines_of_fios_sample_of_jesd219() -> None:
    found = measures("jesd219")["job"]
    assert isinstance(found, FioJobs)
    options = dict(line.split("=", 1) for line in found.source.text.splitlines() if "=" in line)
    sizes = dict(part.split("/") for part in options["bssplit"].split(":"))

    assert sizes == {
        "512": "4", "1024": "1", "1536": "1", "2048": "1", "2560": "1", "3072": "1", "3584": "1",
        "4k": "67", "8k": "10", "16k": "7", "32k": "3", "64k": "3",
    }  # fmt: skip
    assert options["random_distribution"] == "zoned:50/5:30/15:20/80"
    assert (options["rw"], options["rwmixread"]) == ("randrw", "40")
    assert (options["iodepth"], options["numjobs"], options["blockalign"]) == ("256", "4", "4k")


@pytest.mark.parametrize(
    "name", ["server-kvcache", "server-vector", "server-checkpoint", "jesd219"]
)
def test_the_figures_of_a_load_are_documented_for_each_of_its_mixes(name: str) -> None:
    rows = [
        line
        for line in (ROOT / "docs" / "workloads.md").read_text().splitlines()
        if line.startswith(f"| `{name}`")
    ]

    assert rows
    assert all(called == "job" or f"`{called}`" in "".join(rows) for called in measures(name))


def test_figures_of_reviewers_are_found_by_their_common_names() -> None:
    (probe,) = (measure.stage for measure in read_profile("slc-cache")[0].measure)
    (log,) = streams("fsync-rate", "fsync").values()
    found = streams("trim-latency", "trim")

    assert isinstance(probe, Probes) and probe.of == (ProbeName.SLC_CACHE,)
    assert probe.rests_s == (30, 120, 600)
    assert (log.iodepth, log.flush_every, log.read_percent) == (1, 1, 0)
    assert (found["trims"].trim_percent, found["writes"].trim_percent) == (100, 0)
    assert read_profile("fullness")[0].fill_levels_percent == (20, 40, 60, 80, 100)
