"""Probes of a drive's inner structure, by the names that profiles use."""

from ssdbench.stages.probe.bench import Probe
from ssdbench.stages.probe.buffers import Flushes, SlcCache, WriteBuffer
from ssdbench.stages.probe.reads import Mapping, Parallelism, ReadChunk, StripeWidth
from ssdbench.stages.probe.spare import RemapUnit, Spare, Trim

# The cache wants an empty drive, stripes want ordered data, the remap unit a spare area that was
# not used up; random writes of the whole drive and TRIM come last.
PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        SlcCache(),
        StripeWidth(),
        Parallelism(),
        ReadChunk(),
        RemapUnit(),
        Mapping(),
        Flushes(),
        WriteBuffer(),
        Spare(),
        Trim(),
    )
}
