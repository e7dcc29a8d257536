"""The steps of a lane's batch, by name, and hooks for them, at which crash tests kill a process or abort its lanes."""

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
"""Steps of a lane that continues from others. ``AHEAD``: its first batch is planned while its predecessors write their
last ones, and waits. ``ADOPTED``: a standby has become its folder, and nothing newer has been copied to it yet.
"""
BROKEN = "broken"
WITHDRAWN = "withdrawn"
TAKEN_BACK = "taken-back"
NAMES = (PLANNING, PLANNED, PUBLISHED, COMMITTED)
OF_SLOTS = (OPENING, PRODUCED, MARKED, TRANSACTED)
"""Steps of a slot's output to Kafka: its producer is being opened; its records have been sent; its marker has been
sent, too, and nothing is committed; its transaction is committed.
"""
OF_DRAINS = (HALTED, ENDING, ENDED, DRAINED)
"""Steps of a lane that drains: it has reported that it has read everything that it should so far; the batch in which
time ends is planned; that batch is published; it is committed, but not reported.
"""
OF_BREAKS = (BROKEN, WITHDRAWN, TAKEN_BACK)
"""Steps of a batch that is broken off in a closing lane: its query was stopped; nothing can write the batch any more;
it is no longer in the lane's folder.
"""
OF_TABLES = (STAGED, NAMED)
"""Steps of an output into a table: the tasks have written its rows, and nothing is committed; it is committed, but
perhaps not visible to readers yet. ``REWRITTEN``, above: the state of a lane was rewritten after that batch, next to
the old state.
"""

NOTED = "noted"
COPIED = "copied"
LISTED = "listed"
FOUND_WHOLE = "found-whole"
PLACED = "placed"
FOLDERS_PLACED = "folders-placed"
STORED = "stored"
OF_BACKUPS = (NOTED, COPIED, LISTED)
"""Steps of a job's backup, whose name stands for the lane's: there is only a note; everything is copied, but nothing
says that the backup is complete; it is complete."""
OF_RESTORES = (FOUND_WHOLE, PLACED, FOLDERS_PLACED, STORED)
"""Steps of a restore: the backup was verified, and nothing was written; the streams are in place; the folders of lanes
are, too; the store knows the job."""

# "<lane prefix>:<step>:<batch>", as in "1-:published:3": the lane of stage 1, after batch 3 was published; with "3+",
# after that or any later one, for steps that not every batch comes to.
_HOLD = os.environ.get("ANABRANCH_HOLD_AT", "")
_NOTE = os.environ.get("ANABRANCH_HOLD_NOTE", "")
RELEASED = ".released"
"""A suffix. If a file exists that has the note's name with this suffix, nothing is held any more."""
ACTIVE = bool(_HOLD)

Watcher = Callable[[str, str, int], None]
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher(step, lane, batch)`` at the steps that this process reaches. If it raises an exception, the lane
    fails.

    ``planning`` is reached in a process of Spark's, so it is never seen here.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def reach(step: str, lane: str, batch: int) -> None:
    """Report that a lane is at a step. If it is the one at which to stop, write the note and sleep until killed or
    released.

    Python workers of a killed driver end, too.
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
    """The number of the batch that would be planned next, according to a local folder of commits."""
    done = [int(name) for name in os.listdir(commits) if name.isdigit()] if os.path.isdir(commits) else []
    return max(done, default=-1) + 1
