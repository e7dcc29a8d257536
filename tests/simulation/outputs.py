"""What stands for Spark's folders and the output streams."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.errors import FencedError, StateError
from anabranch.model.lane import Lane
from tests.simulation.inputs import Last, Processed, Ranges, Share, follow, lowered
from tests.simulation.invariants import Broken


@dataclass
class Folder:
    """A lane's folder: the ranges of its planned batches, how many of them are committed, and who made or took it.

    ``state``: of a stateful lane, after the last committed batch. ``noted``: it tells how far its lane came in event
    time. ``last``: the number of the batch in which time ends, once that is planned.
    """

    epoch: int
    taken_by: int
    begins: dict[int, int]
    planned: list[Ranges] = field(default_factory=list)
    committed: int = 0
    state: Last = field(default_factory=dict)
    noted: bool = False
    last: int | None = None

    @property
    def over(self) -> bool:
        """Whether time has ended."""
        return self.last is not None and self.committed > self.last

    @property
    def pending(self) -> bool:
        return self.committed < len(self.planned)

    def plan(self, by: int, rows: dict[int, int]) -> None:
        self._check(by)
        before = self._after(len(self.planned))
        self.planned.append({number: (before[number], before[number] + more) for number, more in rows.items()})

    def next(self) -> tuple[int, Ranges]:
        """The pending batch, with its number."""
        if not self.pending:
            raise Broken("one-owner", f"somebody else has committed the pending batch of folder {self.epoch}")
        return self.committed, self.planned[self.committed]

    def commit(self, by: int) -> None:
        self._check(by)
        self.committed += 1

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the next offset after the last committed batch."""
        return self._after(self.committed)

    def copy(self, epoch: int, partitions: dict[int, int]) -> Folder:
        planned = [{number: batch.get(number, (at, at)) for number, at in partitions.items()} for batch in self.planned]
        return Folder(epoch, epoch, partitions, planned, self.committed, dict(self.state), last=self.last)

    def _after(self, batches: int) -> dict[int, int]:
        if not batches:
            return self.begins
        return {number: end for number, (_, end) in self.planned[batches - 1].items()}

    def _check(self, by: int) -> None:
        if by != self.taken_by:
            raise Broken(
                "one-owner", f"epoch {by} writes to folder {self.epoch}, which epoch {self.taken_by} has taken"
            )


@dataclass
class Output:
    """What a lane has written. ``fenced``: False for an output at least once, which knows no epochs.

    ``batches``: the ranges of each published batch; ``epoch``: the highest that has written or fenced.
    """

    fenced: bool
    epoch: int = 0
    batches: dict[int, Ranges] = field(default_factory=dict)
    last_at: float = -1.0

    @property
    def last(self) -> int:
        return max(self.batches, default=-1)

    def fence(self, epoch: int) -> None:
        """Nothing below an epoch is published any more. StateError: a higher one is there."""
        if self.fenced:
            if self.epoch > epoch:
                raise StateError("a process with a higher epoch has the lane")
            self.epoch = epoch

    def publish(self, batch: int, its: Ranges, epoch: int, now: float) -> bool:
        """Publish a batch, unless it is there; says whether it wasn't. FencedError: a higher epoch has the lane."""
        if self.fenced and epoch < self.epoch:
            raise FencedError(f"epoch {self.epoch} has the lane")
        if epoch < self.epoch:
            raise Broken("one-owner", f"epoch {epoch} publishes after epoch {self.epoch}")
        self.epoch, self.last_at = epoch, now
        if batch in self.batches:
            if self.batches[batch] != its:
                raise Broken(
                    "exactly-once", f"batch {batch} was {self.batches[batch]}, and is {its} when it is replayed"
                )
            return False
        if self.batches and batch != self.last + 1:
            raise Broken("exactly-once", f"batch {batch} comes after {self.last}")
        self.batches[batch] = its
        return True


class Storage:
    """All folders and outputs of a world, and what the groups of its jobs have processed."""

    def __init__(self) -> None:
        self.folders: dict[tuple[str, int], Folder] = {}
        self._fenced: dict[str, bool] = {}
        self._outputs: dict[str, Output] = {}
        self._shares: dict[tuple[str, bool], Share] = {}
        self._processed = Processed()

    def add(self, job: str, *, fenced: bool) -> None:
        """``fenced``: whether the outputs of a job can be."""
        self._fenced[job] = fenced

    def output(self, lane: Lane) -> Output:
        if lane.id not in self._outputs:
            self._outputs[lane.id] = Output(self._fenced[lane.job])
        return self._outputs[lane.id]

    def share(self, lane: Lane) -> Share:
        """The records of a lane: since it is known where it begins they don't change."""
        key = lane.id, lane.start_is_known
        if key not in self._shares:
            self._shares[key] = Share(lane)
        return self._shares[key]

    def take(self, lane: Lane, epoch: int) -> Folder:
        """A lane's folder for an epoch: a new one (of a copy, for one that has state), the one it had, or a copy."""
        last, begins = self.output(lane).last, self.share(lane).begins
        if not lane.folder_epoch:
            if last >= 0:
                raise Broken("exactly-once", "the lane is new, and its output holds batches")
            for name, of in lane.inherits.items():
                if not self.folders[name, of].noted:
                    raise Broken("state-goes-along", f"folder {of} of {name} doesn't tell how far it came")
            made = self._made(lane, epoch)
            return self.folders.setdefault((lane.id, epoch), made)
        folder = self.folders[lane.id, lane.folder_epoch]
        if last >= len(folder.planned):
            raise Broken("exactly-once", f"folder {folder.epoch} has {len(folder.planned)} batches, not {last}")
        if lane.abandoned:
            folder = self.folders[lane.id, epoch] = folder.copy(epoch, begins)
        folder.taken_by = epoch
        return folder

    def process(self, lane: Lane, ranges: Ranges) -> None:
        """A batch of a lane is put out."""
        share = self.share(lane)
        self._processed.add(lane, share.of(ranges), share.given(ranges))

    def commit(self, lane: Lane, folder: Folder, by: int) -> None:
        _, ranges = folder.next()
        folder.commit(by)
        if lane.stateful:
            follow(folder.state, self.share(lane).of(ranges), lane.id, "state-goes-along")

    def _made(self, lane: Lane, epoch: int) -> Folder:
        rewind, share = lane.rewind, self.share(lane)
        at = {} if rewind is None else self._processed.rewind(lane, share.kept)
        if rewind is not None and rewind.clear:
            return Folder(epoch, epoch, share.begins, state=at if lane.stateful else {})
        if not (lane.stateful and lane.inherits) or (lane.drained is not None and not lane.drained.state):
            return Folder(epoch, epoch, share.begins)
        made = self._split(lane, epoch)
        if rewind is not None and rewind.to:
            made.state = lowered(made.state, rewind)
            if made.planned:
                made.planned[-1] = {
                    number: (start, share.begins[number]) for number, (start, _) in made.planned[-1].items()
                }
        return made

    def _split(self, lane: Lane, epoch: int) -> Folder:
        parent = next(iter(lane.inherits)) if lane.drained is None else lane.drained.state
        former = self.folders[parent, lane.inherits[parent]]
        if lane.drained is not None:
            if not former.over:
                raise Broken("drained-is-exact", f"{parent} has state for {lane.id}, and hasn't drained")
            former = former.copy(epoch, former.begins)
            former.last = None
        if former.pending or former.committed != lane.first_batch:
            raise Broken("state-goes-along", f"{parent} has {former.committed} batches, {lane.id} begins with another")
        return former.copy(epoch, self.share(lane).begins)
