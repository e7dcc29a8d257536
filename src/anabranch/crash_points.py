"""Names the steps of batches, hand-overs, drains, compaction, backups and restores at which a crash test can kill the
process. The test can also make a lane fail at one of the lane's steps.
"""

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
"""Steps of a successor.

``AHEAD``: the lane has planned its first batch, which waits until the predecessors have written their last batches.
``ADOPTED``: a standby has become the lane's folder, and nothing newer has been copied to the folder yet.
"""
BROKEN = "broken"
WITHDRAWN = "withdrawn"
TAKEN_BACK = "taken-back"
NAMES = (PLANNING, PLANNED, PUBLISHED, COMMITTED)
OF_SLOTS = (OPENING, PRODUCED, MARKED, TRANSACTED)
"""Steps of a slot's output to Kafka.

``OPENING``: the producer is being opened. ``PRODUCED``: the records have been sent. ``MARKED``: the marker has also
been sent, but nothing is committed. ``TRANSACTED``: the transaction is committed.
"""
OF_DRAINS = (HALTED, ENDING, ENDED, DRAINED)
"""Steps of a lane that drains. At the watermark of the last batch, all windows close.

``HALTED``: the lane has read everything that it must read so far, and has reported this. ``ENDING``: the last batch is
planned. ``ENDED``: the last batch is published. ``DRAINED``: the last batch is committed, but not reported.
"""
OF_BREAKS = (BROKEN, WITHDRAWN, TAKEN_BACK)
"""Steps of a batch that is broken off in a closing lane.

``BROKEN``: the query was stopped. ``WITHDRAWN``: nothing can write the batch any more. ``TAKEN_BACK``: the batch is no
longer in the lane's folder.
"""
OF_TABLES = (STAGED, NAMED)
"""Steps of an output to a table.

``STAGED``: Spark tasks have written the rows, but nothing is committed. ``NAMED``: the batch is committed, but perhaps
not visible to readers yet. ``REWRITTEN`` isn't a step of an output: the lane's state was rewritten after the batch,
next to the old state.
"""

NOTED = "noted"
COPIED = "copied"
LISTED = "listed"
FOUND_WHOLE = "found-whole"
PLACED = "placed"
FOLDERS_PLACED = "folders-placed"
STORED = "stored"
OF_BACKUPS = (NOTED, COPIED, LISTED)
"""Steps of a job's backup. At these steps, the argument ``lane`` of :func:`reach` is the job's name.

``NOTED``: nothing has been written except the note that a backup is being made. ``COPIED``: everything is copied, but
not marked as complete. ``LISTED``: the backup is complete."""
OF_RESTORES = (FOUND_WHOLE, PLACED, FOLDERS_PLACED, STORED)
"""Steps of a restore. At these steps, the argument ``lane`` of :func:`reach` is the job's name.

``FOUND_WHOLE``: the backup has been verified; nothing is written yet. ``PLACED``: the streams are in place.
``FOLDERS_PLACED``: the streams and the lanes' folders are in place. ``STORED``: the job has been entered in the
store."""

# ANABRANCH_HOLD_AT has the form "<lane prefix>:<step>:<batch>". For example, "1-:published:3" holds a lane of stage 1
# after batch 3 was published. "1-:published:3+" holds the lane after batch 3 or a later batch; use "+" for steps that
# not every batch reaches.
_HOLD = os.environ.get("ANABRANCH_HOLD_AT", "")
_NOTE = os.environ.get("ANABRANCH_HOLD_NOTE", "")
RELEASED = ".released"
"""The suffix of the file that releases all held processes. Its name is ``ANABRANCH_HOLD_NOTE`` plus this suffix."""
ACTIVE = bool(_HOLD)

Watcher = Callable[[str, str, int], None]
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Inside ``with``, ``watcher(step, lane, batch)`` is called at each step that this process reaches. An exception
    that the watcher raises is raised at the step.

    The watcher doesn't see steps, such as ``PLANNING``, that Spark's Python processes reach.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def reach(step: str, lane: str, batch: int) -> None:
    """Report to the watchers that ``batch`` of a lane has reached a step. If ``ANABRANCH_HOLD_AT`` names this step,
    lane and batch, write a note to the file ``ANABRANCH_HOLD_NOTE``, and sleep until the process is killed or released.

    Python workers that sleep here end when their driver is killed.
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
    """The number of the first batch that isn't committed. ``commits`` is a lane's local folder of commits. The result
    is one more than the highest number in this folder. If the folder is empty or missing, the result is 0.
    """
    done = [int(name) for name in os.listdir(commits) if name.isdigit()] if os.path.isdir(commits) else []
    return max(done, default=-1) + 1
