"""What stands for Spark's folders and the output streams."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.errors import FencedError, StateError
from tests.simulation.invariants import Broken

Range = tuple[int, int]


@dataclass
class Folder:
    """A lane's folder: the ranges of its planned batches, how many of them are committed, and who made or took it."""

    epoch: int
    taken_by: int
    planned: list[Range] = field(default_factory=list)
    committed: int = 0

    @property
    def pending(self) -> bool:
        return self.committed < len(self.planned)

    def plan(self, by: int, rows: int) -> None:
        self._check(by)
        start = self.planned[-1][1] if self.planned else 0
        self.planned.append((start, start + rows))

    def next(self) -> tuple[int, Range]:
        """The pending batch, with its number."""
        if not self.pending:
            raise Broken("one-owner", f"somebody else has committed the pending batch of folder {self.epoch}")
        return self.committed, self.planned[self.committed]

    def commit(self, by: int) -> None:
        self._check(by)
        self.committed += 1

    def _check(self, by: int) -> None:
        if by != self.taken_by:
            raise Broken(
                "one-owner", f"epoch {by} writes to folder {self.epoch}, which epoch {self.taken_by} has taken"
            )


@dataclass
class Output:
    """What a lane has written. ``fenced``: False for an output at least once, which knows no epochs.

    ``batches``: the range of each published batch; ``epoch``: the highest that has written or fenced.
    """

    fenced: bool
    epoch: int = 0
    fence_at: int = 0
    batches: list[Range] = field(default_factory=list)
    last_at: float = -1.0

    def fence(self, epoch: int) -> None:
        """Nothing below an epoch is published any more. StateError: a higher one is there."""
        if self.fenced:
            if self.epoch > epoch:
                raise StateError("a process with a higher epoch has the lane")
            self.epoch = self.fence_at = epoch

    def publish(self, batch: int, its: Range, epoch: int, now: float) -> bool:
        """Publish a batch, unless it is there; says whether it wasn't. FencedError: a higher epoch has the lane."""
        if self.fenced and epoch < self.epoch:
            raise FencedError(f"epoch {self.epoch} has the lane")
        if epoch < self.epoch:
            raise Broken("one-owner", f"epoch {epoch} publishes after epoch {self.epoch}")
        self.epoch, self.last_at = epoch, now
        if batch < len(self.batches):
            if self.batches[batch] != its:
                raise Broken(
                    "exactly-once", f"batch {batch} was {self.batches[batch]}, and is {its} when it is replayed"
                )
            return False
        if batch != len(self.batches) or its[0] != (self.batches[-1][1] if self.batches else 0):
            raise Broken("exactly-once", f"batch {batch} with {its} comes after {self.batches[-1:]}")
        self.batches.append(its)
        return True


class Storage:
    """All folders and outputs of a world."""

    def __init__(self) -> None:
        self.folders: dict[tuple[str, int], Folder] = {}
        self.outputs: dict[str, Output] = {}

    def take(self, lane: str, had: int, epoch: int, *, copied: bool) -> Folder:
        """A lane's folder for an epoch: a new one (``had`` 0), the one it had, or a copy of that."""
        there = self.outputs[lane].batches
        if not had:
            if there:
                raise Broken("exactly-once", "the lane is new, and its output holds batches")
            return self.folders.setdefault((lane, epoch), Folder(epoch, epoch))
        folder = self.folders[lane, had]
        if len(there) > len(folder.planned):
            raise Broken("exactly-once", f"folder {had} knows {len(folder.planned)} batches, the output {len(there)}")
        if copied:
            folder = Folder(epoch, epoch, list(folder.planned), folder.committed)
            self.folders[lane, epoch] = folder
        folder.taken_by = epoch
        return folder
