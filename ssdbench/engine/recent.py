"""What was written to the drive last: how far it has digested what came before."""

from dataclasses import dataclass

from ssdbench.model.workload import Workload


@dataclass(slots=True)
class RecentWrites:
    """Bytes written in one layout since another one was. Reads leave no trace."""

    workload: Workload | None = None
    written_bytes: int = 0

    def follows(self, workload: Workload, written_bytes: int) -> None:
        """A start of the generator under one workload ended."""
        if not workload.writes:
            return
        if self.workload is None or workload.layout != self.workload.layout:
            self.workload, self.written_bytes = workload, 0
        self.written_bytes += written_bytes

    def forget(self) -> None:
        """Something else changed the drive."""
        self.workload, self.written_bytes = None, 0

    def of(self, workload: Workload) -> int:
        """Bytes written in the layout of this workload since another one was."""
        same = self.workload is not None and workload.layout == self.workload.layout
        return self.written_bytes if same else 0
