"""Windows of each kind, while factor and containers change under load and containers are killed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from anabranch.event_time.windows import Sliding
from tests.acceptance.harness import Flight, Workspace
from tests.jobs import JOBS
from tests.soak import scaled

JOB = JOBS / "windowed" / "delays.py"
GAP = timedelta(hours=1)
SLIDING = Sliding(3_600_000, 1_200_000)

Windows = dict[tuple[str, datetime, datetime], int]
"""By plane, start and end: how many flights."""


def sessions(times: dict[str, list[datetime]]) -> Windows:
    found: Windows = {}
    for plane, its in times.items():
        begun = last = its[0]
        count = 0
        for at in its:
            if at > last + GAP:
                found[plane, begun, last + GAP] = count
                begun, count = at, 0
            last, count = at, count + 1
        found[plane, begun, last + GAP] = count
    return found


def slid(times: dict[str, list[datetime]]) -> Windows:
    found: Counter[tuple[str, datetime, datetime]] = Counter()
    for plane, its in times.items():
        for at in its:
            for start in SLIDING.starts_of(int(at.timestamp() * 1000)):
                begin = datetime.fromtimestamp(start / 1000, UTC)
                found[plane, begin, begin + timedelta(milliseconds=SLIDING.size)] += 1
    return dict(found)


class Windowed(Workspace):
    """``came_out``: how many windows of each kind."""

    came_out = ""

    def check_outputs(self, several: Sequence[Flight]) -> None:
        """Each window of event time is there at most once and is the direct computation; those are that have ended.
        Windows of processing time hold each flight once."""
        times: dict[str, list[datetime]] = defaultdict(list)
        for flight in several:
            if flight["tailnum"] is not None:
                times[flight["tailnum"]].append(datetime.fromisoformat(flight["at"]))
        watermark = self.watermark("0")
        counts = []
        for stream, wanted in (("sessions", sessions(times)), ("slid", slid(times))):
            found = self.windows(stream)
            wrong = {window: n for window, n in found.items() if wanted.get(window) != n}
            assert not wrong, f"{len(wrong)} of {stream} are wrong, as {min(wrong.items())}"
            lost = [window for window in wanted if window[2] < watermark and window not in found]
            assert not lost, f"{len(lost)} of {stream} never came out, as {min(lost)}"
            assert len(found) > 1000, f"only {len(found)} of {stream} came out by {watermark}"
            counts.append(f"{len(found):,} {stream}")
        taken_in: Counter[str] = Counter()
        for (plane, _, _), n in self.windows("taken-in").items():
            taken_in[plane] += n
        assert taken_in == {plane: len(its) for plane, its in times.items()}
        self.came_out = ", ".join(counts)

    def windows(self, stream: str) -> Windows:
        """What came out, none twice."""
        found: Windows = {}
        for _, value in self.contents(stream):
            start, end = (datetime.fromisoformat(value[name]) for name in ("window_start", "window_end"))
            assert (value["tailnum"], start, end) not in found, f"a window of {stream} came out twice: {value}"
            found[value["tailnum"], start, end] = value["n"]
        return found


def windows(seed: int, place: Workspace) -> str:
    """As :func:`scaled.scaled`: factor 1 to 4 to 2 to 1, two containers and one."""
    dice = random.Random(seed)
    folder = place.folder / "job"
    folder.mkdir()
    workspace = Windowed(folder, place.cluster, JOB, patience=place.patience, job__on_null_key="drop")
    wishes = [{"factor": 4}, {"containers": 2}, {"factor": 2}, {"containers": 1}, {"factor": 1}]
    if seed % 2:
        wishes = [{"containers": 2}, {"factor": 4}, {"containers": 1}, {"factor": 1}]
    try:
        stay = [number for number, wish in enumerate(wishes) if "factor" in wish]
        told = scaled.changed(workspace, seed, wishes, kill_before=dice.randrange(1, 3), kill_in=dice.choice(stay))
    finally:
        workspace.close()
    return f"{told}; {workspace.came_out}, each right and once"
