"""Several writers at once, and writers that pause (Dunn 2009, figures 11 to 13)."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from ssdbench.model.asked.mistakes import refuse, repeated
from ssdbench.model.asked.repeated import Repeated, Settle
from ssdbench.model.asked.sweeps import AccessOrder
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import Jobs, OneOrMany, Seconds, Share, SizeBytes
from ssdbench.units import KIB


class Processes(Repeated):
    """Sequential writers, each in a part of its own; some of them pause now and then."""

    kind: ClassVar[StageKind] = StageKind.PROCESSES

    pattern: AccessOrder = Field(default=AccessOrder.SEQUENTIAL, description="Order of offsets.")
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block", description="Size of one write.")
    processes: Annotated[tuple[Jobs, ...], OneOrMany()] = Field(
        default=(1, 2, 4, 8), min_length=1, description="Writers at the same time."
    )
    delays_s: Annotated[tuple[Seconds, ...], OneOrMany()] = Field(
        default=(0.001, 0.01, 0.1), alias="delays", description="Lengths of a pause."
    )
    delayed_percent: Annotated[tuple[Share, ...], OneOrMany()] = Field(
        default=(10.0, 50.0),
        alias="delayed",
        description="Share of writes after which a writer pauses; every n-th, not at random.",
    )
    delayed_processes: Annotated[tuple[Jobs, ...], OneOrMany()] = Field(
        default=(1, 8), description="Numbers of writers that are also measured with pauses."
    )
    settle: Settle = Field(
        default=Settle.model_validate({"window": "60s", "spare": "0%", "max_time": "5m"}),
        description="A writer that pauses may take days to write the spare area once, so points "
        "settle in time and not in bytes.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            [
                *repeated("processes", self.processes),
                *repeated("delays", self.delays_s),
                *repeated("delayed", self.delayed_percent),
                *repeated("delayed_processes", self.delayed_processes),
            ]
        )
        return self

    @property
    def reads(self) -> bool:
        """Whether it reads."""
        return False
