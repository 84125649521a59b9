"""PTS-style tests of schema 1, with flat records and a header of text, as those of today; pure."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from ssdbench.model.profile.standard import PtsTest
from ssdbench.units import parse_size

Document = dict[str, Any]

_TEST = re.compile(r"PTS-style (?P<test>.+?)(?: \((?P<load>.+)\))?, (?P<form>\w+) form")
_STEADY = {"reached": True, "not reached": False}
_DECIMAL = {"B": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_LATENCIES = ("min_ns", "mean_ns", "max_ns")


def upgraded_pts(summary: Document, data: Document) -> Document:
    """What a test found, from what schema 1 kept of it."""
    head = _TEST.fullmatch(str(summary.get("test", "")))
    tests = {test.full_name: test for test in PtsTest}
    histograms = data.get("histograms", {})
    rounds = groupby(data.get("rounds", ()), key=lambda record: record["round"])
    return {
        "test": tests.get(head["test"]) if head else None,
        "load": (head and head["load"]) or "",
        "form": head and head["form"],
        "scale": float(str(summary.get("durations", "")).partition(" by ")[2] or 1),
        "steady": _STEADY.get(summary.get("steady_state", "")),
        "active_range_bytes": summary.get("active_range_bytes", 0),
        "data_pattern": summary.get("data_pattern", "random"),
        "outstanding_per_thread": _numbers(summary.get("outstanding_per_thread", "")),
        "threads": _numbers(summary.get("threads", "")),
        "block_split": [
            (parse_size(size), share)
            for size, share in re.findall(r"([\d.]+ \w+) (\d+) %", summary.get("block_sizes", ""))
        ],
        "zones": re.findall(r"([\d.]+) % of I/O on ([\d.]+) %", summary.get("zones", "")),
        "windows": [_window(header) for header in data.get("steady_state", ())],
        "means": [_cell(record) for record in data.get("means_over_the_window", ())],
        "not_applicable": data.get("not_applicable", ()),
        "phases": [_phase(record) for record in data.get("phases", ())],
        "preparation": [_step(record) for record in data.get("preparation", ())],
        "warm_up": [_sample(record) for record in data.get("warm_up", ())],
        "rounds": [_round(number, list(records)) for number, records in rounds],
        "samples": [_sample(record) for record in data.get("samples", ())],
        "pre_writes": data.get("pre_writes", ()),
        "in_steady_state": [
            {**_cell(record), "bins": histograms.get(record["cell"])}
            for record in data.get("in_steady_state", ())
        ],
    }


def _numbers(text: str) -> list[str]:
    return [number for number in text.split(", ") if number]


def _window(header: Mapping[str, Any]) -> Document:
    cell, _, metric = header["tracking"].rpartition(", ")
    first, last = re.findall(r"\d+", header["window"])
    kept = _without(header, "tracking", "window")
    metric = metric.replace(" ", "_")
    return {**kept, "cell": cell, "metric": metric, "first_round": first, "last_round": last}


def _cell(record: Mapping[str, Any]) -> Document:
    kept = _without(record, "round", "counted", *(key for key in record if key.endswith("_ns")))
    pre_write = record["cell"].startswith("pre-write")
    return {**kept, "latency": _latency(record), "pre_write": pre_write}


def _round(number: int, records: Iterable[Mapping[str, Any]]) -> Document:
    records = list(records)
    counted = all(record.get("counted", True) for record in records)
    return {"number": number, "counted": counted, "cells": [_cell(record) for record in records]}


def _sample(record: Mapping[str, Any]) -> Document:
    kept = _without(record, "written", *(key for key in record if key.endswith("_ns")))
    return {**kept, "written_bytes": record["written"], "latency": _latency(record)}


def _latency(record: Mapping[str, Any]) -> Document | None:
    """A mean of 0 was written where no request ended."""
    if not record.get("mean_ns"):
        return None
    levels = {k.removesuffix("_ns"): v for k, v in record.items() if re.match(r"p\d", k)}
    return {**{name: record[name] for name in _LATENCIES}, "percentiles_ns": levels}


def _phase(record: Mapping[str, Any]) -> Document:
    until = record["samples_until_level"]
    return {**record, "samples_until_level": None if until == "never" else until}


def _step(record: Mapping[str, Any]) -> Document:
    number, _, unit = record["written"].partition(" ")
    kept = _without(record, "written")
    return {**kept, "written_bytes": round(float(number) * _DECIMAL[unit])}


def _without(record: Mapping[str, Any], *names: str) -> Document:
    return {key: value for key, value in record.items() if key not in names}
