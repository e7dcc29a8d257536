"""A job whose timers go off while factor and containers change under load, and containers are killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tests.acceptance.harness import Flight, Workspace
from tests.jobs import JOBS
from tests.soak import scaled

JOB = JOBS / "processed" / "delays.py"
HOURS = "hours"
HOUR = timedelta(hours=1)


class Processed(Workspace):
    """``timers``: how many have gone off. ``drains``: it has drained, so all have."""

    timers = 0
    drains = False

    def check_outputs(self, several: Sequence[Flight]) -> None:
        """One row for each plane and hour that ends by the watermark, or of all, with as many flights as there were."""
        found = [((value["tailnum"], value["ends"][:13]), value["n"]) for _, value in self.contents(HOURS)]
        twice = [place for place, times in Counter(place for place, _ in found).items() if times > 1]
        assert not twice, f"{len(twice)} timers went off twice, as {twice[0]}"
        wanted: Counter[tuple[str, str]] = Counter()
        watermark = datetime.max.replace(tzinfo=UTC) if self.drains else self.watermark("0")
        for flight in several:
            at = datetime.fromisoformat(flight["at"]).replace(minute=0, second=0, microsecond=0)
            ends = at + HOUR
            if flight["tailnum"] is not None and ends <= watermark:
                wanted[flight["tailnum"], ends.strftime("%Y-%m-%dT%H")] += 1
        lost = wanted.keys() - dict(found).keys()
        assert not lost, f"{len(lost)} timers never went off, as {min(lost)}"
        assert dict(found) == wanted
        assert len(found) > 1000, f"only {len(found)} timers went off by {watermark}"
        self.timers = len(found)


def timers(seed: int, place: Workspace) -> str:
    """As :func:`scaled.scaled`: factor 1 to 4 to 1, two containers and one. Odd seeds end with a drain."""
    dice = random.Random(seed)
    folder = place.folder / "job"
    folder.mkdir()
    workspace = Processed(folder, place.cluster, JOB, patience=place.patience, job__on_null_key="drop")
    wishes = [{"factor": 4}, {"containers": 2}, {"factor": 1}, {"containers": 1}]
    if seed % 2:
        wishes = [{"containers": 2}, {"factor": 4}, {"containers": 1}, {"factor": 1}]
    try:
        stay = [number for number, wish in enumerate(wishes) if "factor" in wish]
        workspace.drains, before, during = seed % 2 == 1, dice.randrange(1, 3), dice.choice(stay)
        ends = ("drain", "--up-to", "latest") if workspace.drains else ("stop",)
        told = scaled.changed(workspace, seed, wishes, kill_before=before, kill_in=during, ends=ends)
    finally:
        workspace.close()
    ended = "; it drained" if workspace.drains else ""
    return f"{told}{ended}; {workspace.timers} timers went off, each once"
