"""A job with a broadcast input whose factor and containers change under load, while containers are killed."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from anabranch.model.hashing import partition_for
from tests.acceptance.harness import INPUT, LATE, Flight, Workspace, record_batch
from tests.jobs import JOBS
from tests.soak import scaled

JOB = JOBS / "broadcast" / "delays.py"
RULES = "rules"
FACTOR = 4
"""The only one but 1, so that a bucket tells the factor."""
PARTITIONS = 3
"""One of them is in both containers at factor 4."""
_EVERY = 5
_KEYS = [f"N{number:05}" for number in range(40)]


class Broadcasting(Workspace):
    """Its input has a record in the broadcast stream for every so many flights. ``again``: how many records a task of
    factor 1 was given once more, because one of the four that it took over from hadn't had them."""

    rules = 0
    again = 0

    def put(self, several: Sequence[Flight], pieces: int = 1) -> None:
        if RULES not in self.system.streams():
            self.system.create(RULES, 2)
            self.system.create(INPUT, PARTITIONS)
        super().put(several, pieces)
        numbers = range(self.rules, self.rules + len(several) // _EVERY)
        keys = [_KEYS[number % len(_KEYS)].encode() for number in numbers]
        self.append(
            RULES, record_batch(keys, [json.dumps({"origin": f"rule-{number}"}).encode() for number in numbers])
        )
        self.rules = numbers.stop

    def check_outputs(self, several: Sequence[Flight]) -> None:
        """Every flight came to one task, and every record of the broadcast to all; state took each once a partition."""
        flights: Counter[str] = Counter()
        came: dict[tuple[int, int], list[int | None]] = defaultdict(list)
        order: dict[Any, list[int]] = defaultdict(list)
        for key, value in self.contents(LATE):
            if not value["origin"].startswith("rule-"):
                flights[value["origin"]] += 1
                continue
            number = int(value["origin"].removeprefix("rule-"))
            came[number, value["task"]].append(value.get("bucket"))
            order[key, value["task"], value.get("bucket")].append(number)
        assert flights == Counter(flight["origin"] for flight in several)
        assert came.keys() == {(number, task) for number in range(self.rules) for task in range(PARTITIONS)}
        for place, buckets in came.items():
            assert len(set(buckets)) == len(buckets), f"{place} came twice: {buckets}"
            parts = len(buckets) - buckets.count(None)
            assert parts < FACTOR if None in buckets else parts == FACTOR, f"{place} came to {buckets}"
        assert all(numbers == sorted(numbers) for numbers in order.values())
        self.again = sum(None in buckets and len(buckets) > 1 for buckets in came.values())
        self._check_counts(several)

    def _check_counts(self, several: Sequence[Flight]) -> None:
        wanted: Counter[tuple[str, int]] = Counter()
        for number in range(self.rules):
            wanted.update((_KEYS[number % len(_KEYS)], task) for task in range(PARTITIONS))
        for flight in several:
            if flight["tailnum"] is not None:
                wanted[flight["tailnum"], partition_for(flight["tailnum"].encode(), PARTITIONS)] += 1
        counted: Counter[tuple[str, int]] = Counter()
        for _, value in self.contents("counts"):
            place = value["tailnum"], value["task"]
            counted[place] = max(value["n"], counted[place])
        assert counted == wanted


def broadcasts(seed: int, place: Workspace) -> str:
    """As :func:`scaled.scaled`. From factor 4 to 1 the tasks of two containers come together."""
    dice = random.Random(seed)
    folder = place.folder / "job"
    folder.mkdir()
    workspace = Broadcasting(folder, place.cluster, JOB, patience=place.patience, job__on_null_key="drop")
    wishes = [{"containers": 2}, {"factor": FACTOR}, {"factor": 1}, {"factor": FACTOR}, {"containers": 1}]
    if seed % 2:
        wishes = [{"factor": FACTOR}, {"containers": 2}, {"factor": 1}, {"containers": 1}, {"factor": FACTOR}]
    try:
        late = [number for number, wish in enumerate(wishes) if number > 1 and "factor" in wish]
        told = scaled.changed(workspace, seed, wishes, kill_before=dice.randrange(1, 3), kill_in=dice.choice(late))
    finally:
        workspace.close()
    return (
        f"{told}; {workspace.again} of {workspace.rules * PARTITIONS} times, one that came of four had a record again"
    )
