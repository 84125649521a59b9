"""Provide all probes of a drive's inner structure, by the names that profiles use."""

from ssdbench.stages.probe.bench import Probe
from ssdbench.stages.probe.buffers import Flushes, SlcCache, WriteBuffer
from ssdbench.stages.probe.reads import Mapping, Parallelism, ReadChunk, StripeWidth
from ssdbench.stages.probe.spare import RemapUnit, Spare, Trim

# The order keeps a probe from spoiling the drive for later ones: the cache needs an empty drive,
# the stripe ordered data, the remap unit free spare area, and writes to the whole drive come last.
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
