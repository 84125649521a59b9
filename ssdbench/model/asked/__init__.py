"""What a profile may ask for under `measure`: a module for each family of stages."""

from ssdbench.model.asked.blocksize import BlockSize
from ssdbench.model.asked.probe import ProbeName, Probes
from ssdbench.model.asked.processes import Processes
from ssdbench.model.asked.rates import RateSweep
from ssdbench.model.asked.standard import Pts, PtsForm, PtsTest
from ssdbench.model.asked.sweeps import AccessOrder, ExtraRepeats, Rest, Settle, SpanSweep, Sweep
from ssdbench.model.asked.trials import (
    Applications,
    CpuCost,
    Depth,
    Engines,
    FileMix,
    FileSystemName,
    FileSystems,
    FileWriters,
    HostTrial,
    Interrupts,
    LatencyPath,
    ProgramName,
    QueueSettings,
    Schedulers,
    Surface,
)

__all__ = [
    "AccessOrder",
    "Applications",
    "BlockSize",
    "CpuCost",
    "Depth",
    "Engines",
    "ExtraRepeats",
    "FileMix",
    "FileSystemName",
    "FileSystems",
    "FileWriters",
    "HostTrial",
    "Interrupts",
    "LatencyPath",
    "ProbeName",
    "Probes",
    "Processes",
    "ProgramName",
    "Pts",
    "PtsForm",
    "PtsTest",
    "QueueSettings",
    "RateSweep",
    "Rest",
    "Schedulers",
    "Settle",
    "SpanSweep",
    "Surface",
    "Sweep",
]
