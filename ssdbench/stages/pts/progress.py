"""What a test of rounds has done so far, kept after each round so that a resumed run goes on."""

from ssdbench.engine.stage import Context
from ssdbench.model.base import Model
from ssdbench.model.finding import Finding
from ssdbench.stages.pts.parts import Record
from ssdbench.stages.pts.preparation import Prepared
from ssdbench.stages.pts.work import Work

FILE = "progress.json"


class Round(Model):
    """One finished pass over all cells."""

    number: int
    counted: bool  # not the first after a pause: the drive had time to recover
    records: tuple[Record, ...]


class Progress(Model):
    """The preparation, the warm-up and the finished rounds."""

    preparation: tuple[Record, ...] = ()
    findings: tuple[Finding, ...] = ()
    warm_up: tuple[Record, ...] = ()
    rounds: tuple[Round, ...] = ()
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0

    @classmethod
    def stored(cls, context: Context) -> "Progress":
        """What an interrupted test left, if the drive is still as it left it."""
        path = context.store.path / FILE
        if not context.resumed or not context.content_stands or not path.is_file():
            return cls()
        return context.store.load(FILE, cls)

    def prepared(self, done: Prepared, warm_up: list[Record]) -> "Progress":
        """With the preparation."""
        return self.model_copy(
            update={
                "preparation": tuple(done.records),
                "findings": tuple(done.findings),
                "warm_up": tuple(warm_up),
                "seconds": done.seconds,
                "bytes_written": done.bytes_written,
            }
        )

    def spent(self, work: Work) -> "Progress":
        """With what was moved since it was stored."""
        return self.model_copy(
            update={
                "seconds": self.seconds + work.seconds,
                "bytes_read": self.bytes_read + work.bytes_read,
                "bytes_written": self.bytes_written + work.bytes_written,
            }
        )

    def and_round(self, number: int, records: list[Record], *, counted: bool) -> "Progress":
        """With one more round."""
        new = Round(number=number, counted=counted, records=tuple(records))
        return self.model_copy(update={"rounds": (*self.rounds, new)})

    def records(self) -> list[Record]:
        """All rounds as records; those that do not count say so."""
        return [
            record if done.counted else {**record, "counted": False}
            for done in self.rounds
            for record in done.records
        ]
