"""The documents about a coordinator, and about a job's deployments, graph, placement of buckets in seats, and
partitions."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.graph import Node
from anabranch.views.table import Table

__all__ = ["CoordinatorInfo", "DeploymentInfo", "GraphEdge", "GraphStage", "GraphView", "Partitions", "Placement"]


class CoordinatorInfo(Document, frozen=True, kw_only=True):
    """A coordinator's description of itself."""

    at: float
    """Seconds since 1970, on the coordinator's clock."""
    program: str
    leads: bool
    leader: str | None
    """The URL of the coordinator that leads. If no coordinator leads at the moment, the URL of the last one that led.
    None if no coordinator has ever led, or if the last leader has resigned.
    """
    lease: float
    """For how many seconds after a heartbeat a container counts as alive."""
    grace: float | None
    """A silent container loses its seat this many seconds after the end of its lease. None if the container keeps the
    seat until another process takes the seat.
    """
    invalid_heartbeats: int
    store: str
    """The store's URL, without a password."""
    links: dict[str, str] = {}
    """The links that the dashboard shows for each container. The keys are the links' names. The values are addresses
    with placeholders such as ``{host}`` and ``{pid}``.
    """


class DeploymentInfo(Document, frozen=True, kw_only=True):
    """A deployment of a job. Times are seconds since 1970."""

    id: int
    state: str
    generation: int
    version_of: int
    """The number of the first deployment of this deployment's version."""
    created_at: float
    changed_at: float
    artifact: str = ""
    """The SHA-256 of the code; empty if the job runs in the same process as its coordinator."""
    file: str = ""
    error: str | None = None


class GraphStage(Document, frozen=True, kw_only=True):
    """A stage of a deployment's graph."""

    stage: str
    nodes: tuple[int, ...]
    """The ids of the nodes of the stage's operators."""
    key: tuple[str, ...]
    stateful: bool
    inputs: tuple[str, ...]
    """The streams that the stage reads, as ``system/stream``."""
    outputs: tuple[str, ...]
    """The names of the streams that the stage writes."""
    tasks: int
    """The number of the stage's tasks."""


class GraphEdge(Document, frozen=True, kw_only=True):
    """A stream that one stage writes and another stage reads."""

    from_stage: str
    to_stage: str
    stream: str


class GraphView(Document, frozen=True, kw_only=True):
    """The graph of a deployment: its operators as stored, and the stages into which they are divided."""

    job: str
    deployment: int
    nodes: tuple[Node, ...]
    stages: tuple[GraphStage, ...]
    edges: tuple[GraphEdge, ...]
    promises: dict[str, str] = {}
    """What each output to a stream or a table promises, by operator."""


class Placement(Document, frozen=True, kw_only=True):
    """For each partition of a stage and each seat, how many of the partition's buckets are in the seat."""

    at: float
    job: str
    deployment: int
    generation: int
    factor: int
    stage: str
    stages: tuple[str, ...]
    """All stages of the job."""
    start: int
    """The index of the first of ``partitions`` among all partitions of the stage."""
    total: int
    """How many partitions the stage has in all."""
    seats: tuple[str, ...]
    racks: tuple[str | None, ...]
    """The rack of each of ``seats``; None if a rack is unknown."""
    partitions: tuple[str, ...]
    """The names that the tasks have at factor 1. Each name represents the partitions that the task reads."""
    cells: Table
    """Each row has an index into ``partitions``, an index into ``seats``, and the number of the partition's buckets
    that the seat has.
    """


class Partitions(Document, frozen=True, kw_only=True):
    """The partitions that a job reads. Each row of ``table`` is about a lane and one partition that this lane reads."""

    at: float
    job: str
    served: bool
    """Whether this coordinator serves the job. If not, the answer comes from the store, which contains no positions.
    """
    start: int
    """The index of the table's first row among all rows that match the request, in the requested order."""
    total: int
    """How many rows match the request in all."""
    table: Table
    """The rows. ``time`` is the watermark of the partition itself, in Unix ms. ``time`` is None if it isn't known, for
    example because the container doesn't know yet that somebody is looking at partitions.
    """
    totals: dict[str, int] = {}
    """Metrics for all rows that match the request. ``lag`` is the sum of the lags, in offsets. ``idle`` is the number
    of rows whose partition is idle. ``unknown`` is the number of rows whose lag is unknown. ``timed`` is the number of
    rows that have a known ``time`` and aren't idle. Of these ``timed`` rows, ``holding`` counts those whose ``time`` is
    within a minute of the earliest ``time``.
    """
    quantiles: dict[str, int] = {}
    """Quantiles of the lag over all matching rows with a known lag, in offsets."""
    watermarks: Table
    """For each lane that has reported, the lane's watermark in Unix ms, and the partition that holds this watermark
    back.
    """
