"""A stored run for a notebook: typed results, and the tables of the report as DataFrames."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ssdbench.model.result import RunResult
from ssdbench.report import csv
from ssdbench.report.read import StoredRun


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """What a run holds; docs/tables.md describes the columns of its tables."""

    directory: Path
    result: RunResult

    @property
    def results(self) -> pd.DataFrame:
        """One row per point, repeat and metric, as in results.csv."""
        return csv.results_table(self.result).frame()

    @property
    def summary(self) -> pd.DataFrame:
        """One row per point, as in summary.csv."""
        return csv.summary_table(self.result).frame()

    @property
    def artifacts(self) -> pd.DataFrame:
        """The files behind each number, as in artifacts.csv."""
        return csv.artifacts_table(self.result).frame()


def opened(path: Path) -> OpenedRun:
    """Open a run directory. Raises UsageError when it has no result that this version reads."""
    return OpenedRun(path, StoredRun.open(path).result)
