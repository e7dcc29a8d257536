"""What a container and the coordinator say to each other, and what a user's verbs ask: in process or over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from anabranch.formats import Format
from anabranch.model.document import Document
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.model.outline import Basis, Outline
from anabranch.model.traffic import Traffic


class Program(Document, frozen=True, kw_only=True):
    """What a container in another process needs to run a deployment, besides its model and lanes.

    ``artifact`` is the sha256 of the job's code, ``file`` the job file in it. ``settings`` are those of the one who
    started the job, with absolute paths; secrets are references. ``schemas`` map operators (by node) to what comes out
    of them, as Spark's JSON. ``cores``: so many tasks must be able to run at once (0: any number will do).
    """

    artifact: str
    file: str
    settings: dict[str, Any]
    schemas: dict[str, str]
    cores: int = 0


class Start(Document, frozen=True, kw_only=True):
    """A planned deployment, handed over to be started. ``lanes`` are all new; ``model.run_id`` is 0: not given yet.

    ``fingerprint`` maps what must be the same for a resume (graph, factor, …) to its hash or value.
    ``formats`` are those of the streams that aren't JSON: they stay as they are now for as long as the deployment.
    ``until_caught_up``: lanes end when their inputs are at the ends that were noted at the start.
    ``program`` is for containers in other processes; None: the one that starts it is the only container, and
    ``settings`` are what the coordinator must know of its settings. ``reset_state``: after a drain, no state is kept.
    """

    graph: Graph
    model: JobModel
    lanes: tuple[Lane, ...]
    fingerprint: dict[str, str]
    formats: dict[str, Format] = {}
    promises: dict[str, str] = {}
    until_caught_up: bool = False
    program: Program | None = None
    settings: dict[str, Any] = {}
    reset_state: bool = False


class Running(Document, frozen=True, kw_only=True):
    """A deployment as a container that comes to it is told of it. ``formats`` as in :class:`Start`."""

    job: str
    deployment: int
    program: Program
    formats: dict[str, Format] = {}


class CopyReport(Document, frozen=True, kw_only=True):
    """What a process says of a standby that it keeps: copy ``number`` of the folder that a lane has from ``epoch``.

    ``batch``: the last one that it has (-1: it isn't whole yet). ``error``: why it can't be brought up to date.
    """

    lane: str
    epoch: int
    number: int
    batch: int = -1
    error: str = ""


class Copy(Document, frozen=True, kw_only=True):
    """What a process should do with a standby; fields as in :class:`CopyReport`. ``hold``: leave it as it is;
    ``remove`` it: nobody will need it. One that isn't named any more is another's: forget it."""

    lane: str
    epoch: int
    number: int
    to: Literal["refresh", "hold", "remove"] = "refresh"


class Registration(Document, frozen=True, kw_only=True):
    """A process wants a seat, the one that is named or any free one; said twice, it is the same one.

    ``deployment``: whose code it has; 0: that of the present one.
    ``execution`` is its EXECUTION_ENV_CONTAINER_ID, which it may have in common with one before it; ``instance`` is
    its own. Of one that stands by: ``copies``, the standbys that it keeps, and ``warm``, whether its session has run
    all that it should have run before lanes begin in it.
    """

    job: str
    execution: str
    host: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    instance: str = ""
    seat: str | None = None
    rack: str | None = None
    deployment: int = 0
    copies: tuple[CopyReport, ...] = ()
    warm: bool = True


class Registered(Document, frozen=True, kw_only=True):
    """The process's container id and epoch, and how long its lease lasts from each beat, in seconds.

    ``seat`` None: all of them are taken: ask again. ``done``: nor will one be free, as the job doesn't run, or another
    deployment of it does. ``copies``: the standbys to keep meanwhile.
    """

    lease: float
    seat: str | None = None
    container: str = ""
    epoch: int = 0
    done: bool = False
    copies: tuple[Copy, ...] = ()


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
    often its container has begun it; ``trouble`` why it was begun again last; ``stalls`` how often that was because it
    stood still.

    Of the last half minute, or rather ``span`` seconds (0: nothing is known yet): ``busy`` is the part that its batches
    took, ``working`` the part that Python functions worked on the bucket that they worked on most; ``arriving``:
    records that came in, a second. ``slowest``: the SSP that Python functions spent most time on in the last batches,
    ``slowest_seconds``; ``skew``: how often that is the mean. ``usual_seconds``: the median duration of batches.
    ``sequential``: its functions work on one key after another (``process``), and become no faster with the factor.

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


class Heartbeat(Document, frozen=True, kw_only=True):
    """A beat. ``seen`` is the ``revision`` of the last answer: a newer one is answered at once.

    ``number`` rises: of a beat that another one has overtaken, the lanes aren't heard. ``leaving``: all its lanes have
    ended, and it gives its seat back. ``copies``: the standbys that it keeps.
    """

    container: str
    epoch: int
    number: int
    seen: int = -1
    lanes: tuple[LaneReport, ...] = ()
    leaving: bool = False
    copies: tuple[CopyReport, ...] = ()


class DrainNotification(Document, frozen=True, kw_only=True):
    """A deployment (SEP-31 calls its number ``runId``) is to drain. ``mode``: it takes in what its lanes have "planned"
    by then, or all up to the "latest" record there is now; ``uuid`` tells one wish from another. ``dry`` as in
    :class:`Scaling`."""

    uuid: str
    run_id: int
    mode: Literal["planned", "latest"] = "planned"
    dry: bool = False


class Drain(Document, frozen=True, kw_only=True):
    """How far a drain is that was wished for. Offsets are by the texts of whole SSPs of the streams that the job
    doesn't write itself.

    ``ends``: where these ended when it was accepted, if all up to there is taken in. ``until``: the position of each
    when all has been taken in; None while lanes tell how far they are. ``last``: all lanes are there, and time ends:
    from then on it can't be cancelled.
    """

    notification: DrainNotification
    ends: dict[str, int] = {}
    until: dict[str, int] | None = None
    last: bool = False


class Drained(Document, frozen=True, kw_only=True):
    """What comes of a drain that is wished for. ``uuid``: of the one that is under way; ``ignored``: why nothing is.
    ``stages``: the open lanes of each stage, in the order in which they drain. ``seconds``: how long it takes, as
    expected, where nothing comes in meanwhile that is to be taken in."""

    deployment: int
    uuid: str
    mode: str = "planned"
    ignored: str = ""
    stages: dict[str, tuple[str, ...]] = {}
    seconds: float = 0.0


class Draining(Document, frozen=True, kw_only=True):
    """How a lane drains, for the notification ``uuid``. ``until``: where it stops to read the streams that the job
    doesn't write itself, by the texts of whole SSPs; None: that isn't known yet: it takes in no more than it has
    planned, and tells where that ends. ``last``: all lanes are there: it ends, with all windows and timers, once its
    other inputs are read to their ends.
    """

    uuid: str = ""
    until: dict[str, int] | None = None
    last: bool = False


class WantedLane(Document, frozen=True, kw_only=True):
    """A lane to run. ``upstream_ended``: all lanes that write its inputs have ended: it may end when it is read out.

    ``closing``: not to run, but to end at a batch boundary; what it has begun it must finish first, or take back.
    ``now``: it doesn't wait for what is only done again then. ``draining``: how it drains, if it does.
    """

    lane: Lane
    upstream_ended: bool = False
    closing: bool = False
    now: bool = False
    draining: Draining | None = None


class Scaling(Document, frozen=True, kw_only=True):
    """A job is to have another factor, or number of containers; None: as it is. ``request``: said twice, it is the
    same wish. ``dry``: only find out what that would change. ``now``: it doesn't wait for batches that write at least
    once, which is done twice then. ``brief``: say what comes of it as an outline, without whole lanes. ``expect``:
    what the job was planned for: if it isn't so any more, it isn't changed."""

    factor: int | None = None
    containers: int | None = None
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class Expanding(Document, frozen=True, kw_only=True):
    """A job is to go along with its inputs, whose partitions have become more; fields as in :class:`Scaling`."""

    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class Assigning(Document, frozen=True, kw_only=True):
    """A job's tasks are to go where they should be by the racks as they are now; fields as in :class:`Scaling`."""

    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class Scaled(Document, frozen=True, kw_only=True):
    """What comes of it: the generation, and the lanes that are closed and that follow them; none: it is so already.

    ``partitions``: of the streams that have more of them than before, by ``system/stream``.
    ``pause``: for how many seconds, as expected, there is no output in between; ``free``: the seats that some of them
    are for, and that no container has: they begin once one has.
    ``before`` and ``after``: what is read from which rack, where racks are known; ``why_not``: why they don't count,
    where they should. ``moved``: tasks that get another seat, where nothing else changes.
    ``basis``: what it was planned for, to be given back as what is expected. ``outline``: its lanes, if it is to be
    brief; ``closing`` and ``lanes`` are empty then.
    """

    generation: int
    factor: int
    containers: int
    partitions: dict[str, int] = {}
    closing: tuple[Lane, ...] = ()
    lanes: tuple[Lane, ...] = ()
    pause: float = 0.0
    basis: Basis | None = None
    outline: Outline | None = None
    free: tuple[str, ...] = ()
    before: Traffic | None = None
    after: Traffic | None = None
    why_not: str = ""
    moved: int = 0


class Rewinding(Document, frozen=True, kw_only=True):
    """A job is to read its source streams again from ``to``: "earliest", a time (ISO 8601, with its offset from UTC),
    or offsets by the texts of whole SSPs. ``state``: "keep" or "clear" what the operators behind them hold; None: there
    is none. ``request``, ``dry`` and ``now`` as in :class:`Scaling`."""

    to: str | dict[str, int]
    state: Literal["keep", "clear"] | None = None
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class Rewound(Document, frozen=True, kw_only=True):
    """What comes of it: the generation, from where the SSPs are read again, and the lanes that are closed and that
    follow them; none: the same wish was heard before. ``pause`` as in :class:`Scaled`."""

    generation: int
    to: dict[str, int] = {}
    closing: tuple[Lane, ...] = ()
    lanes: tuple[Lane, ...] = ()
    pause: float = 0.0
    basis: Basis | None = None
    outline: Outline | None = None


class Assigned(Document, frozen=True, kw_only=True):
    """Where a task is, and where it should be by the racks as they are now; and ``why`` there."""

    seat: str
    should: str
    why: str


class Assignment(Document, frozen=True, kw_only=True):
    """The tasks of a job, by stage and name, with their seats; ``racks`` are those of the seats, None: not known.

    ``cost`` of what should be, and ``lower_bound``: see :class:`anabranch.assignment.seating.Seating`. ``before``,
    ``after`` and ``why_not`` as in :class:`Scaled`.
    """

    job: str
    strategy: str
    racks: dict[str, str | None]
    tasks: dict[str, dict[str, Assigned]]
    cost: float = 0.0
    lower_bound: float = 0.0
    before: Traffic | None = None
    after: Traffic | None = None
    why_not: str = ""


class Deploying(Document, frozen=True, kw_only=True):
    """Another version of a job is to follow without a drain. ``drop_state``: operators whose state may go.
    ``request``, ``dry`` and ``now`` as in :class:`Scaling`."""

    start: Start
    drop_state: tuple[str, ...] = ()
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class RollingBack(Document, frozen=True, kw_only=True):
    """The version before the present one is to follow it; fields as in :class:`Deploying`."""

    drop_state: tuple[str, ...] = ()
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class Deployed(Document, frozen=True, kw_only=True):
    """What comes of it: the deployment that follows, and the one whose version it is (its own: a new one); the lanes
    that are closed and that go on from them; none: the same wish was heard before.

    ``notes``: what changes for those who use its outputs or its state. ``pause`` as in :class:`Scaled`.
    """

    deployment: int
    version_of: int
    closing: tuple[Lane, ...] = ()
    lanes: tuple[Lane, ...] = ()
    notes: tuple[str, ...] = ()
    pause: float = 0.0
    basis: Basis | None = None
    outline: Outline | None = None


class LaneSizing(Document, frozen=True, kw_only=True):
    """How a lane copes; see :class:`LaneReport`. ``lags``: by SSP, offsets that it is behind. ``spent``: where the
    time of the batch that runs goes, or that of the last long one, in seconds by phase.

    ``true_rate``: records a second that it does while it is busy; ``needed_rate``: those that it must do, so that no
    backlog is left after the target lag. ``catch_up``: seconds until none is left, and ``then`` with the proposed
    factor, the pause of the change included; None: it only grows, or it isn't known.
    """

    lane: str
    stage: str
    seat: str
    tasks: tuple[str, ...]
    lag: int
    lags: dict[str, int]
    arriving: float
    rows_per_second: float
    busy: float
    working: float
    batch_seconds: float
    slowest: str
    slowest_seconds: float
    skew: float
    true_rate: float = 0.0
    needed_rate: float = 0.0
    catch_up: float | None = None
    then: float | None = None
    batch_progress: BatchProgress | None = None
    spent: dict[str, float] = {}


class Sizing(Document, frozen=True, kw_only=True):
    """What decides on a job's factor and containers: how its lanes cope, and what could be. ``allowed``: factors.

    ``autoscale``: what the coordinator's own autosizer makes of it; empty if it is off. ``proposed``: the factor that
    the figures of now ask for, without the time that it waits until it changes anything; 0: they say nothing.
    ``target_lag_seconds`` is what that goes by. ``advice``: what would help where no factor does.
    """

    job: str
    state: str
    generation: int
    factor: int
    containers: int
    allowed: tuple[int, ...]
    lanes: tuple[LaneSizing, ...] = ()
    autoscale: str = ""
    proposed: int = 0
    target_lag_seconds: float = 0.0
    advice: tuple[str, ...] = ()


class Answer(Document, frozen=True, kw_only=True):
    """What the container should run. Lanes that it runs and that aren't wanted are stopped at a batch boundary; with
    ``at_once`` the batch that runs is broken off, and is finished when they go on.

    ``alive`` false: stop everything and exit non-zero, for ``reason``. ``done``: nothing is left to run: exit.
    ``same``: all is as in the answer of that ``revision``, which the beat has seen; nothing of it is said again.
    ``coming``: lanes that will be wanted here once those are closed that they go on from. What can be prepared may be;
    nothing is told of it. ``copies``: the standbys that it should keep, or remove.
    """

    alive: bool
    revision: int
    wanted: tuple[WantedLane, ...] = ()
    coming: tuple[Lane, ...] = ()
    copies: tuple[Copy, ...] = ()
    until_caught_up: bool = False
    at_once: bool = False
    done: bool = False
    same: bool = False
    reason: str | None = None


class ContainerStatus(Document, frozen=True, kw_only=True):
    """A container as ``status`` shows it. ``lease``: seconds until it ends, and ``alive``: whether it hasn't (None: who
    was asked doesn't serve the job, and can't know).

    ``deployment``: whose lanes it runs. ``gone``: why it has lost its seat.
    """

    container: str
    seat: str
    epoch: int
    host: str
    pid: int
    rack: str | None = None
    alive: bool | None = True
    lease: float | None = None
    gone: str | None = None
    deployment: int = 0


class LaneStatus(Document, frozen=True, kw_only=True):
    """A lane as ``status`` shows it: its record, and the last report of the container that runs it."""

    lane: Lane
    report: LaneReport | None = None

    @property
    def lag(self) -> int:
        """Offsets between the lane's positions and its inputs' ends."""
        if self.report is None:
            return 0
        held = self.report.positions
        return sum(max(0, end - held.get(ssp, 0)) for ssp, end in self.report.ends.items())


class Launching(Document, frozen=True, kw_only=True):
    """How the coordinator's own launcher fares with a job's containers: so many are wanted, so many run.

    ``failures`` in a row, the last for ``reason``. ``gave_up``: none is started any more. ``logs``: the folder with
    what they said.
    """

    wanted: int
    running: int
    failures: int = 0
    reason: str = ""
    gave_up: bool = False
    logs: str = ""


class CopyStatus(Document, frozen=True, kw_only=True):
    """A standby as ``status`` shows it: copy ``number`` of a lane's folder. ``container``: who keeps it; empty: one
    that stands by. ``behind``: by so many batches; None: it isn't whole yet."""

    lane: str
    number: int
    container: str
    rack: str | None = None
    batch: int = -1
    behind: int | None = None
    error: str = ""


class JobStatus(Document, frozen=True, kw_only=True):
    """A job as ``status`` shows it. ``served``: a coordinator answered; else it was read from the store.

    ``promises``: what each output promises, by operator. ``seats``: how many containers it wants; ``factor``: its
    elasticity factor. ``tasks`` of each stage; ``consumption``: in how many containers each of its SSPs is read, on
    average. ``rescale_seconds``: how long the last change took since a coordinator serves the job (None: there was
    none).
    ``standing_by``: so many processes wait for a seat. ``launching`` None: others start its containers.
    ``inputs``: the partitions that the streams which it reads were last seen to have, by ``system/stream`` (0: it is
    gone); ``warnings`` are of the coordinator. ``drain``: the one that is under way. ``copies``: the standbys of lanes.
    """

    job: str
    deployment: int
    generation: int
    state: str
    lanes: tuple[LaneStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    error: str | None = None
    served: bool = True
    promises: dict[str, str] = {}
    seats: int = 1
    factor: int = 1
    tasks: dict[str, int] = {}
    consumption: dict[str, float] = {}
    rescale_seconds: float | None = None
    standing_by: int = 0
    launching: Launching | None = None
    inputs: dict[str, int] = {}
    warnings: tuple[str, ...] = ()
    drain: Drain | None = None
    copies: tuple[CopyStatus, ...] = ()
