"""The crash points: named steps of a lane's batch, and of other procedures, at which tests kill a process or abort its
lanes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PLANNING = "planning"
PLANNED = "planned"
PUBLISHED = "published"
COMMITTED = "committed"
OPENING = "opening"
PRODUCED = "produced"
MARKED = "marked"
TRANSACTED = "transacted"
REWRITTEN = "rewritten"
STAGED = "staged"
NAMED = "named"
HALTED = "halted"
ENDING = "ending"
ENDED = "ended"
DRAINED = "drained"
AHEAD = "ahead"
ADOPTED = "adopted"
"""Steps of a lane that continues from others.

- ``AHEAD``: its first batch is planned and waits, while its predecessors write their last batches.
- ``ADOPTED``: a standby has become the lane's folder, and nothing newer has been copied to the folder yet.
"""
BROKEN = "broken"
WITHDRAWN = "withdrawn"
TAKEN_BACK = "taken-back"
NAMES = (PLANNING, PLANNED, PUBLISHED, COMMITTED)
OF_SLOTS = (OPENING, PRODUCED, MARKED, TRANSACTED)
"""Steps of a slot's output to Kafka.

- ``OPENING``: the slot's producer is being opened.
- ``PRODUCED``: the records have been sent.
- ``MARKED``: the marker has been sent, too; nothing is committed.
- ``TRANSACTED``: the transaction is committed.
"""
OF_DRAINS = (HALTED, ENDING, ENDED, DRAINED)
"""Steps of a lane that drains.

- ``HALTED``: it has reported that it has stopped where it must wait for the other lanes.
- ``ENDING``: the batch in which time ends is planned.
- ``ENDED``: that batch is published.
- ``DRAINED``: that batch is committed, but the lane hasn't reported it.
"""
OF_BREAKS = (BROKEN, WITHDRAWN, TAKEN_BACK)
"""Steps of a batch that is broken off in a closing lane.

- ``BROKEN``: the query has been stopped.
- ``WITHDRAWN``: nothing can write the batch any more.
- ``TAKEN_BACK``: the batch is no longer in the lane's folder.
"""
OF_TABLES = (STAGED, NAMED)
"""Steps of an output to a table.

- ``STAGED``: the Spark tasks have written the rows; nothing is committed.
- ``NAMED``: the batch is committed, but readers may not see it yet.

``REWRITTEN`` concerns no output: after that batch, the lane's state has been rewritten next to the old state.
"""

NOTED = "noted"
COPIED = "copied"
LISTED = "listed"
FOUND_WHOLE = "found-whole"
PLACED = "placed"
FOLDERS_PLACED = "folders-placed"
STORED = "stored"
OF_BACKUPS = (NOTED, COPIED, LISTED)
"""Steps of a job's backup. The job's name stands for a lane's.

- ``NOTED``: only the note that a backup is being made exists.
- ``COPIED``: everything is copied, but the backup isn't marked as complete.
- ``LISTED``: the backup is complete.
"""
OF_RESTORES = (FOUND_WHOLE, PLACED, FOLDERS_PLACED, STORED)
"""Steps of a restore.

- ``FOUND_WHOLE``: the backup has been verified; nothing is written.
- ``PLACED``: the streams are in place.
- ``FOLDERS_PLACED``: the folders of lanes are in place, too.
- ``STORED``: the store has the job.
"""

# "<lane prefix>:<step>:<batch>". For example, "1-:published:3" is the lane of stage 1 after batch 3 was published, and
# "1-:published:3+" the same after batch 3 or any later one, for steps that not every batch reaches.
_HOLD = os.environ.get("ANABRANCH_HOLD_AT", "")
_NOTE = os.environ.get("ANABRANCH_HOLD_NOTE", "")
RELEASED = ".released"
"""A suffix. As soon as a file exists whose name is the note's with this suffix, no lane is held any more."""
ACTIVE = bool(_HOLD)

Watcher = Callable[[str, str, int], None]
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher(step, lane, batch)`` at each step that this process reaches. If the watcher raises an exception,
    the lane fails.

    The watcher never sees ``planning``, because one of Spark's own processes reaches that step.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def reach(step: str, lane: str, batch: int) -> None:
    """Report that a lane has reached a step. If ANABRANCH_HOLD_AT names this step, write the note, and sleep until the
    process is killed or the lane is released. A sleeping Python worker ends if its driver is killed.
    """
    for watcher in tuple(_watchers):
        watcher(step, lane, batch)
    if not ACTIVE:
        return
    prefix, name, number = _HOLD.split(":")
    released = Path(_NOTE + RELEASED)
    meant = batch >= int(number[:-1]) if number.endswith("+") else batch == int(number)
    if lane.startswith(prefix) and step == name and meant and not released.exists():
        Path(_NOTE).write_text(f"{lane} {step} {batch}\n")
        parent = os.getppid()
        while not released.exists():
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(0.1)


def next_batch(commits: str) -> int:
    """The number of the next batch, according to the files in a local commit folder."""
    done = [int(name) for name in os.listdir(commits) if name.isdigit()] if os.path.isdir(commits) else []
    return max(done, default=-1) + 1
