"""What every finished unit of a stage leaves on disk, whatever was measured."""

from ssdbench.model.base import Model
from ssdbench.model.finding import Finding


class UnitRecord(Model):
    """Stored before the journal calls the unit finished."""

    findings: tuple[Finding, ...] = ()
