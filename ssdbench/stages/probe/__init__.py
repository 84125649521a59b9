"""Probes of a drive's inner structure, by the names that profiles use."""

from ssdbench.stages.probe.bench import Probe
from ssdbench.stages.probe.buffers import Flushes, SlcCache, WriteBuffer
from ssdbench.stages.probe.reads import Mapping, Parallelism, ReadChunk, StripeWidth
from ssdbench.stages.probe.spare import RemapUnit, Spare, Trim

# In this order: the cache needs an empty drive, stripes need ordered data, the remap unit needs a
# free spare area; random writes of the whole drive and TRIM come last.
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
