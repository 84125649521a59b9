"""Provide all probes of a drive's inner structure, by the names that profiles use."""

from ssdbench.stages.probe.bench import Probe
from ssdbench.stages.probe.buffers import Flushes, SlcCache, WriteBuffer
from ssdbench.stages.probe.reads import Mapping, Parallelism, ReadChunk, StripeWidth, Wake
from ssdbench.stages.probe.spare import RemapUnit, Spare, Trim

# In this order, no probe spoils the drive for a later probe. The cache needs an empty drive, the
# stripe needs ordered data, and the remap unit needs a free spare area. Probes that write the whole
# drive come last.
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
        Wake(),
    )
}
