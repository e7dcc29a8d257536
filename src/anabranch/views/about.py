"""What a coordinator reports about itself, about deployments, and about the graph of a job."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.graph import Node
from anabranch.views.table import Table

__all__ = ["CoordinatorInfo", "DeploymentInfo", "GraphEdge", "GraphStage", "GraphView", "Partitions", "Placement"]


class CoordinatorInfo(Document, frozen=True, kw_only=True):
    """``at``: seconds since 1970, on the coordinator's clock. ``leader``: the URL of the coordinator that leads; None:
    none leads, or this is the only one. ``lease`` and ``grace``: how many seconds a container may be silent (``grace``
    None: it keeps its seat). ``store``: the store's URL, without a password.
    """

    at: float
    program: str
    leads: bool
    leader: str | None
    lease: float
    grace: float | None
    invalid_heartbeats: int
    store: str
    links: dict[str, str] = {}
    """Links to other places for a container, by name: addresses with ``{host}``, ``{pid}`` and the like."""


class DeploymentInfo(Document, frozen=True, kw_only=True):
    """A deployment. ``version_of``: the first deployment with the same code. ``artifact``: the sha256 of the code;
    empty: it runs in one process with its coordinator. Times are seconds since 1970.
    """

    id: int
    state: str
    generation: int
    version_of: int
    created_at: float
    changed_at: float
    artifact: str = ""
    file: str = ""
    error: str | None = None


class GraphStage(Document, frozen=True, kw_only=True):
    """A stage: the ids of its ``nodes``, its inputs and outputs by ``system/stream``, and its number of tasks."""

    stage: str
    nodes: tuple[int, ...]
    key: tuple[str, ...]
    stateful: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tasks: int


class GraphEdge(Document, frozen=True, kw_only=True):
    """A stream that one stage writes and another one reads."""

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


class Placement(Document, frozen=True, kw_only=True):
    """How much of each partition of a stage each seat has.

    ``partitions``: the names of tasks at factor 1, from index ``start`` on, out of ``total``. ``rows`` of ``cells``:
    the partition's index in that list, the seat's index in ``seats``, and how many of the partition's buckets are
    there.
    """

    at: float
    job: str
    deployment: int
    generation: int
    factor: int
    stage: str
    stages: tuple[str, ...]
    start: int
    total: int
    seats: tuple[str, ...]
    racks: tuple[str | None, ...]
    partitions: tuple[str, ...]
    cells: Table


class Partitions(Document, frozen=True, kw_only=True):
    """The partitions that a job reads, with their lanes: those from index ``start`` on, out of ``total``.

    ``totals`` and ``quantiles``: of the lag of all partitions, in offsets. ``watermarks``: by lane, in Unix ms, with
    the partition that holds each one back. ``served`` is False if only the store was asked, which knows no positions.
    """

    at: float
    job: str
    served: bool
    start: int
    total: int
    table: Table
    totals: dict[str, int] = {}
    quantiles: dict[str, int] = {}
    watermarks: Table
