"""All probes, by the names that profiles use."""

from ssdbench.stages.probe.bench import Probe
from ssdbench.stages.probe.buffer import WriteBuffer
from ssdbench.stages.probe.cache import SlcCache
from ssdbench.stages.probe.chunks import ReadChunk
from ssdbench.stages.probe.flushes import Flushes
from ssdbench.stages.probe.mapping import Mapping
from ssdbench.stages.probe.parallel import Parallelism
from ssdbench.stages.probe.remap import RemapUnit
from ssdbench.stages.probe.spare import Spare
from ssdbench.stages.probe.stripes import StripeWidth
from ssdbench.stages.probe.trim import Trim

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
