"""What a container reports of each of its lanes."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["BatchProgress", "LaneReport"]


class BatchProgress(Document, frozen=True, kw_only=True):
    """How far the batch is that a lane is at, from when it is planned until it is committed.

    ``number``: of the batch; ``planned``: the records that it reads; ``done``: those of them that are through the
    operator that is furthest behind. ``phase``: what it waits for now: ``reading``, ``functions``, ``state``,
    ``publishing`` or ``committing``. ``seconds``: since it was planned; ``spent``: of them, by phase. ``left``: seconds
    until its end, as foretold by its own speed; None: not known yet. ``buckets``: the records done, by the texts of
    SSPs with their bucket, of those furthest behind.
    """

    number: int
    planned: int
    done: int = 0
    phase: str = "reading"
    seconds: float = 0.0
    rows_per_second: float = 0.0
    left: float | None = None
    spent: dict[str, float] = {}
    buckets: dict[str, int] = {}


class LaneReport(Document, frozen=True, kw_only=True):
    """What a container says of one of its lanes.

    ``phase``: starting, running, ended (stopped at a batch boundary: ``positions`` are final) or failed.
    ``positions`` are the next offsets to read, by the texts of whole SSPs, and ``ends`` the inputs' known ends (for
    lag; ``ends_known`` false: they can't be looked up now, and are those of before); ``rows`` read since the lane
    started, ``batch`` the last committed one (-1: none), ``seconds`` its duration and ``spent``, if it was a long one,
    where they went, by phase.
    ``watermark`` is in Unix ms (None: not known, or the lane has none) and ``held_by`` the SSP that holds it back;
    ``idle`` are those that don't, for nothing comes from them.
    ``dead_letters`` are all that the lane ever wrote; ``dropped`` records and ``late_groups`` (groups of late rows)
    those since it started, as are ``late``: the rows, by SSP, that were put aside for they were late.
    ``batch_progress``: how far the batch is that it is at; None between two. ``limit``: how many records its next batch
    may have; 0: not known. ``waits``: what keeps a lane that is to end from ending. ``warnings`` are
    for who looks: the lane goes on. ``fenced``: it failed because another
    process has the lane. ``begun``: its query has begun in this container. ``stopped``: it ended because its container
    stopped, and may have more to do; ``pending``: it ended before what it had to finish was finished. ``attempt``: how
    often its container has begun it; ``trouble`` why it was begun again last; ``awaits`` what of its surroundings it
    waits for, ``awaits_since`` then, in seconds since 1970; ``stalls`` how often that was because it
    stood still.

    Of the last half minute, or rather ``span`` seconds (0: nothing is known yet): ``busy`` is the part that its batches
    took, ``working`` the part that Python functions worked on the bucket that they worked on most; ``arriving``:
    records that came in, a second. ``slowest``: the SSP that Python functions spent most time on in the last batches,
    ``slowest_seconds``; ``skew``: how often that is the mean. ``usual_seconds``: the median duration of batches.
    ``sequential``: its functions work on one key after another (``process``), and become no faster with the factor.
    ``repeats``: what would be done twice if its batch were run again, so that a change waits for the batch; empty: the
    batch can be taken back.

    ``first_output`` and ``last_output``: when its first and its last batch that read anything was committed, in seconds
    since 1970 (0.0: none was yet). ``state_bytes``: of the files that keep its state.

    ``changeover``: of a lane that goes on from others, the seconds from when it could begin to its first commit,
    without those of that batch; 0.0 while there was none. ``wrote``: where the streams between
    stages ended that it writes, by the texts of SSPs, once it has ended. ``run``: Spark's id of the run of its query:
    another one each time that the query is started.

    Of one that drains: ``halted``: by which notification it has taken in all that it should so far, and ``positions``
    are those; ``drained``: it has ended for good. ``windows``: rows of state that go out at the end, of a window and
    key, say; ``stuck``: what a function has worked on for a second or more, ``overdue`` for longer than it may.
    """

    lane: str
    phase: str
    batch: int = -1
    positions: dict[str, int] = {}
    ends: dict[str, int] = {}
    ends_known: bool = True
    sequential: bool = False
    repeats: str = ""
    rows: int = 0
    rows_per_second: float = 0.0
    seconds: float = 0.0
    spent: dict[str, float] = {}
    folder_epoch: int = 0
    watermark: int | None = None
    held_by: str | None = None
    idle: tuple[str, ...] = ()
    dead_letters: int = 0
    dropped: int = 0
    late_groups: int = 0
    late: dict[str, int] = {}
    batch_progress: BatchProgress | None = None
    limit: int = 0
    waits: str = ""
    warnings: tuple[str, ...] = ()
    error: str | None = None
    fenced: bool = False
    begun: bool = False
    stopped: bool = False
    pending: bool = False
    attempt: int = 1
    trouble: str = ""
    awaits: str = ""
    awaits_since: float = 0.0
    stalls: int = 0
    busy: float = 0.0
    working: float = 0.0
    arriving: float = 0.0
    span: float = 0.0
    slowest: str = ""
    slowest_seconds: float = 0.0
    skew: float = 0.0
    usual_seconds: float = 0.0
    changeover: float = 0.0
    first_output: float = 0.0
    last_output: float = 0.0
    state_bytes: int = 0
    wrote: dict[str, int] = {}
    run: str = ""
    halted: str = ""
    drained: bool = False
    windows: int = 0
    stuck: str = ""
    overdue: bool = False
