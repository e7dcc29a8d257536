"""Computes a running batch's progress from the reports of its Spark tasks. This module uses no clock, no threads and no
Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.container.time_spent import COMPUTING, STATE, Operator, TimeSpent
from anabranch.protocol.lane_report import BatchPhase, BatchProgress
from anabranch.task_progress.counts import PUBLISHING, READING, Received, TaskCounts

__all__ = ["PlannedBatch", "ProgressSample", "Tracker"]

_MOST_BUCKETS = 64
_WINDOW = 10.0
"""The shortest time, in seconds, over which a batch's speed is measured. Until this time has passed since the batch's
first finished record, the speed is measured from that record on.
"""
_NO_TIME = 0.1
_SURE_AFTER = 1.0
"""The shortest time, in seconds, from the first finished record until the remaining time can be predicted."""

Partition = tuple[int, int]
"""The numbers of a source and of one of its partitions."""


@dataclass(frozen=True)
class PlannedBatch:
    """A planned batch, with the data from which its progress is computed.

    Attributes:
        ranges: for each partition, the first offset that the batch reads, and the end offset.
        labels: for each operator that calls a function, the numbers of the sources from which the operator's rows come.
        stateful: whether the batch brings rows together by key.
        state_tasks: the number of Spark tasks in which rows are brought together by key.
        slots: the partition of each slot whose rows come from a single partition.
        name: returns the text form of a bucket, given the numbers of source, partition and bucket.
    """

    number: int
    ranges: Mapping[Partition, tuple[int, int]]
    labels: Mapping[str, Collection[int]] = field(default_factory=dict)
    stateful: bool = False
    state_tasks: int = 0
    slots: Mapping[int, Partition] = field(default_factory=dict)
    name: Callable[[int, int, int], str] = "{}/{}#{}".format

    @property
    def rows(self) -> int:
        return sum(end - first for first, end in self.ranges.values())


@dataclass(frozen=True)
class ProgressSample:
    """A batch's progress at a given moment.

    Attributes:
        worked: how many seconds functions have worked on each bucket. Each key is a pair: the task's number at factor
            1, and the bucket's number.
        tasks: the largest number of Spark tasks in which functions of one operator have been running at the same time.
    """

    progress: BatchProgress
    worked: Mapping[tuple[int, int], float]
    tasks: int = 0


class Tracker:
    """Computes the progress of one batch. ``since`` is when the query started to write the batch; ``before`` contains
    the :attr:`ratios` of the previous batch."""

    def __init__(self, planned: PlannedBatch, since: float, before: Mapping[str, float] | None = None) -> None:
        self._planned = planned
        self._since = since
        self._before = dict(before or {})
        self._speeds: deque[tuple[float, float]] = deque()
        self._spending = TimeSpent(since)
        self._attempts: dict[tuple[str, int, int], int] = {}
        self._most = 0.0
        self._tasks = 0
        self._together: float | None = None
        self.ratios: dict[str, float] = dict(self._before)
        """For each operator, the number of rows that reached the operator per planned record. The value of the key
        "state" is instead the share of the batch's time that has passed since Spark tasks first got rows that were
        brought together by key. Until this batch has measured a value, an earlier batch's value is kept.
        """

    @property
    def number(self) -> int:
        return self._planned.number

    def look(
        self,
        heard: Sequence[TaskCounts],
        now: float,
        step: str = COMPUTING,
        stepped: float | None = None,
    ) -> ProgressSample:
        """The progress at ``now``. All times are in seconds, on the same clock.

        Args:
            heard: the newest reports of Spark tasks.
            step: what the driver is doing: "computing", "publishing" or "committing".
            stepped: when the driver began this step; by default, now.
        """
        planned = self._planned
        operators = self._operators(heard)
        functions = [each for each in operators.values() if each.label not in (READING, PUBLISHING)]
        part = self._most = max(self._most, 1.0 if step != COMPUTING else self._part(operators, now))
        self._remember(operators, now)
        done = min(planned.rows, round(planned.rows * part))
        elapsed = max(0.0, now - self._since)
        spent, phase = self._spending.look(operators.values(), now, step, now if stepped is None else stepped)
        speed, sure = self._speed(part, now)
        left = (1 - part) / speed if sure and speed > 0 else 0.0 if step != COMPUTING else None
        if left is not None and step == COMPUTING:
            left = max([left, *map(self._slowest, operators.values()), *map(self._behind, operators.values())])
        progress = BatchProgress(
            number=planned.number,
            planned=planned.rows,
            done=done,
            phase=BatchPhase(phase),
            seconds=elapsed,
            rows_per_second=speed * planned.rows,
            left=left,
            spent={name: round(seconds, 3) for name, seconds in spent.items() if seconds},
            buckets=self._buckets(functions),
        )
        worked: dict[tuple[int, int], float] = defaultdict(float)
        for operator in functions:
            self._tasks = max(self._tasks, sum(task.fresh for task in operator.tasks))
            for count in operator.counts:
                worked[count.task, count.bucket] += count.seconds
        return ProgressSample(progress, worked, self._tasks)

    def _operators(self, heard: Sequence[TaskCounts]) -> dict[str, Operator]:
        """The operators, by label. For each Spark task, only the newest attempt counts. For each operator, only the
        Spark stage with the most rows counts. Reading is an exception: each source can be read in a separate Spark
        stage, so all of these stages count.
        """
        newest: dict[tuple[str, int, int], TaskCounts] = {}
        for each in heard:
            key = each.told.label, each.told.stage, each.told.partition
            if key not in newest or newest[key].told.attempt < each.told.attempt:
                newest[key] = each
        attempts = {key: each.told.attempt for key, each in newest.items()}
        if any(attempts.get(key, attempt) > attempt for key, attempt in self._attempts.items()):
            self._most = 0.0  # a task is run again
        self._attempts = attempts
        stages: dict[tuple[str, int], list[TaskCounts]] = defaultdict(list)
        for (label, stage, _), each in newest.items():
            stages[label, stage].append(each)
        first = min((stage for _, stage in stages), default=0)
        found: dict[str, Operator] = {}
        for (label, stage), tasks in sorted(stages.items(), key=lambda each: each[0]):
            made = Operator(label, tasks, self._is_late(label, tasks, stage > first))
            if label == READING and label in found:  # each source can be read in a Spark stage of its own
                found[label] = replace(made, tasks=[*found[label].tasks, *tasks])
            elif label not in found or made.rows > found[label].rows:
                found[label] = made
        return found

    def _is_late(self, label: str, tasks: Sequence[TaskCounts], later: bool) -> bool:
        """Whether an operator runs in a later Spark stage than the one that reads the sources."""
        if not self._planned.stateful:
            return False
        if label == PUBLISHING:
            return True
        counts = [count for task in tasks for count in task.counts]
        of_state = any(count.source < 0 or (count.rows and count.offset is None) for count in counts)
        return label != READING and (of_state or (later and not counts))

    def _part(self, operators: Mapping[str, Operator], now: float) -> float:
        """The finished share of the batch, from 0 to 1."""
        planned = self._planned
        early = self._least(operators, late=False)
        if not planned.stateful:
            return early
        late = [each for each in operators.values() if each.late]
        begun = any(each.tasks for each in late)
        weight = self._before.get(STATE, 0.5)
        if not begun:
            return early * (1 - weight)
        self._together = now if self._together is None else self._together
        return (1 - weight) + weight * self._least(operators, late=True)

    def _least(self, operators: Mapping[str, Operator], *, late: bool) -> float:
        parts: list[float] = []
        mine = [each for each in operators.values() if each.late == late]
        for each in mine:
            part = None if each.label == PUBLISHING else self._of(each)
            parts += [] if part is None else [part]
        if not late:
            if operators and not self._planned.stateful and not operators.keys() >= set(self._planned.labels):
                return 0.0
            if not parts:  # rows are published right after they were read
                parts += [] if (part := self._by_slots(operators.get(PUBLISHING))) is None else [part]
        elif not parts:
            ended = max((sum(task.told.ended for task in each.tasks) for each in mine), default=0)
            parts.append(min(1.0, ended / max(1, self._planned.state_tasks)))
        return min(parts, default=0.0)

    def _of(self, operator: Operator) -> float | None:
        """An operator's progress, from 0 to 1; None if it isn't known how many rows the operator will get."""
        planned = self._planned
        if operator.tasks and operator.label == READING:
            return min(1.0, operator.rows / planned.rows) if planned.rows else 1.0
        received = [(task, each) for task in operator.tasks for each in task.told.received if each.source >= 0]
        if received:
            return self._by_received(operator, received)
        if not operator.rows and not all(task.told.ended for task in operator.tasks):
            return 0.0  # the operator waits for its first rows
        ratio = self._ratio(operator)
        if ratio is None or not planned.rows:
            return None
        return min(1.0, operator.rows / (ratio * planned.rows)) if ratio else None

    def _slowest(self, operator: Operator) -> float:
        """The remaining seconds of the bucket that will be finished last, if each bucket keeps its speed; 0.0 if no
        bucket's remaining time is known."""
        longest = 0.0
        for task in operator.tasks:
            if task.fresh:
                parts = {(each.source, each.partition): self._come(each) for each in task.told.received}
                for count in task.counts:
                    part = parts.get((count.source, count.partition), 0.0)
                    if count.received and count.rows and part > 0:
                        left = max(0.0, count.received / part - count.rows)
                        longest = max(longest, left * count.seconds / count.rows)
        return longest

    def _ratio(self, operator: Operator) -> float | None:
        """The number of rows that reach an operator per planned record, as measured in earlier batches.

        If the number hasn't been measured, it is assumed to be 1 for an operator that runs after the sources' Spark
        stage, has received rows and has a running Spark task. For any other operator, the result is None. (A running
        Spark task is required because a Spark task without rows ends at once, and so says nothing about the other Spark
        tasks.)
        """
        known = self._before.get(operator.label)
        under_way = any(not task.told.ended for task in operator.tasks)
        return 1.0 if known is None and operator.late and operator.rows and under_way else known

    def _behind(self, operator: Operator) -> float:
        """The seconds that an operator needs for its remaining rows, at the speed of its running Spark tasks. Finished
        Spark tasks don't count, because they may have been much faster.

        The result is 0 in three cases:

        - The operator publishes rows, or runs in the Spark stage that reads the sources.
        - The operator's speed, or the number of its remaining rows, isn't known.
        - The operator's Spark tasks report the rows received from each partition. In this case, :meth:`_slowest` gives
          the remaining time.
        """
        ratio = self._ratio(operator) if operator.late and operator.label != PUBLISHING else None
        if ratio is None or any(task.told.received for task in operator.tasks):
            return 0.0
        left = ratio * self._planned.rows - operator.rows
        tasks = [task for task in operator.tasks if task.fresh and not task.told.ended]
        speed = sum(sum(count.rows for count in t.counts) / max(t.told.alive, _NO_TIME) for t in tasks)
        return left / speed if left > 0 and speed > 0 else 0.0

    def _come(self, received: Received) -> float:
        """The share of a partition's planned records that has been received, from 0 to 1."""
        first, end = self._planned.ranges.get((received.source, received.partition), (0, 0))
        return 1.0 if end <= first else min(1.0, max(0, received.offset + 1 - first) / (end - first))

    def _by_received(self, operator: Operator, received: Sequence[tuple[TaskCounts, Received]]) -> float:
        """An operator's progress, from 0 to 1: the share of its rows that it has processed. To estimate the operator's
        total number of rows, the rows received from each partition are divided by the share of the partition's planned
        records that has been received, and the results are added up. A partition from which nothing has been received
        yet is assumed to give as many rows per planned record as the other partitions.
        """
        expected: dict[Partition, float] = defaultdict(float)
        seen = covered = 0.0
        for task, each in received:
            first, end = self._planned.ranges.get((each.source, each.partition), (0, 0))
            part = 1.0 if task.told.ended else self._come(each)
            if part > 0:
                expected[each.source, each.partition] += each.rows / part
                seen, covered = seen + each.rows / part, covered + (end - first)
        density = seen / covered if covered else self._before.get(operator.label, 1.0)
        sources = self._planned.labels.get(operator.label, {source for source, _ in expected})
        for place, (first, end) in self._planned.ranges.items():
            if place not in expected and place[0] in sources:
                expected[place] = density * (end - first)
        total = max(1.0, sum(expected.values()))
        return min(1.0, operator.rows / total)

    def _by_slots(self, published: Operator | None) -> float | None:
        reached: dict[Partition, int] = {}
        for count in () if published is None else published.counts:
            place = self._planned.slots.get(count.partition)
            if place in self._planned.ranges and place is not None and count.offset is not None:
                first, end = self._planned.ranges[place]
                reached[place] = max(reached.get(place, 0), min(end, count.offset + 1) - first)
        return min(1.0, sum(reached.values()) / self._planned.rows) if reached and self._planned.rows else None

    def _remember(self, operators: Mapping[str, Operator], now: float) -> None:
        if self._planned.rows:
            self.ratios |= {each.label: each.rows / self._planned.rows for each in operators.values() if each.rows}
        if self._together is not None and now > self._since:
            self.ratios[STATE] = (now - self._together) / (now - self._since)

    def _speed(self, part: float, now: float) -> tuple[float, bool]:
        """The share of the batch that is finished per second, and whether this speed was measured for long enough. The
        time before the first finished record doesn't count, because it doesn't depend on the batch's size. If nothing
        was finished during the measured time, the speed is the average since the query started to write the batch.
        """
        if part > 0:
            self._speeds.append((now, part))
        if not self._speeds:
            return 0.0, False
        window = max(_WINDOW, (now - self._speeds[0][0]) / 2)
        while len(self._speeds) > 2 and self._speeds[1][0] < now - window:
            self._speeds.popleft()
        begun, was = self._speeds[0]
        if part > was:
            return (part - was) / (now - begun), now - begun >= _SURE_AFTER
        return part / max(now - self._since, _SURE_AFTER), now - begun >= _WINDOW

    def _buckets(self, functions: Sequence[Operator]) -> dict[str, int]:
        """How many rows of each bucket the slowest operator has processed, by the bucket's text form. The slowest
        operator is the operator in ``functions`` that has processed the fewest rows. The result contains only the
        ``_MOST_BUCKETS`` buckets with the fewest rows, in ascending order of rows; {} without functions.
        """
        if not functions:
            return {}
        furthest = min(functions, key=lambda each: each.rows)
        rows: Counter[str] = Counter()
        for count in furthest.counts:
            if count.source >= 0:
                rows[self._planned.name(count.source, count.partition, count.bucket)] += count.rows
        return dict(sorted(rows.items(), key=lambda each: (each[1], each[0]))[:_MOST_BUCKETS])
