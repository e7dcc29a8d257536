"""A real coordinator that listens, and containers that tests play: no Spark."""

from __future__ import annotations

import itertools
import mimetypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch import Job
from anabranch.coordinator.api import listening, server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.grouping import groupers
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import plan as planning
from anabranch.protocol.container import Heartbeat, Registration
from anabranch.protocol.deployment import Program, StartRequest
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from tests.support.reports import lane_report

FACTOR, PARTITIONS = 4, 6
MUTANT = os.environ.get("ANABRANCH_TEST_PAGE", "")
"""The folder of another page than the one that is in the package: see :mod:`tests.dashboard.mutants`."""
TRUSTING = os.environ.get("ANABRANCH_TEST_TRUSTING", "")
"""Whether the coordinator is one that doesn't see where requests come from."""
HOSTILE = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>\u202e${7*7} javascript:alert(1)'
"""Text as somebody may put it into a name or an error; it turns the direction of what follows."""
EVENT_TIME = 1_793_188_800_000
"""2026-10-28 in Unix ms."""


def start_request(
    job: str, containers: int, stages: int = 1, partitions: int = PARTITIONS, settings: Mapping[str, Any] | None = None
) -> StartRequest:
    """A stage that reads ``flights``, in a lane for each container; and maybe a second one behind it."""
    built = Job(job)
    late = built.read("flights", key="id string", schema="n int").where("n > 0")
    (late if stages == 1 else late.partition_by("n")).write("late-flights")
    surroundings = planning.Surroundings(
        factor=FACTOR,
        containers=containers,
        grouper_name="partition",
        grouper=groupers.named("partition"),
        partitions={"flights": partitions},
        systems={"flights": "embedded", "late-flights": "embedded"},
    )
    plan = planning.make(built.graph, surroundings)
    numbers = itertools.count(1)
    lanes = planning.lanes_of(plan, 4, lambda: f"{next(numbers):08x}")
    program = Program(artifact="0" * 64, file="job.py", settings=dict(settings or {}), schemas={})
    return StartRequest(graph=built.graph, model=plan.model, lanes=lanes, fingerprint={}, program=program)


class Container:
    """A process that has a seat and runs its lanes, as far as anybody can tell."""

    def __init__(self, coordinator: Coordinator, job: str, seat: str, **of: str | None) -> None:
        self.coordinator = coordinator
        given = {"host": f"host-{seat}", "rack": f"rack-{int(seat) % 2}", **of}
        registration = Registration(job=job, seat=seat, execution=f"{job}-{seat}", pid=100 + int(seat), **given)
        self.me = coordinator.register(registration)
        self.beats = 0

    def beat(self, *reports: LaneReport) -> None:
        self.beats += 1
        who = {"container": self.me.container, "epoch": self.me.epoch}
        self.coordinator.heartbeat(Heartbeat(**who, number=self.beats, lanes=reports))


class Played:
    """The coordinator, with a job ``delays`` in two containers. ``reports`` are what their lanes say at the next beat,
    by the place of the lane.

    Args:
        between: stands between the browser and the coordinator, as a proxy does.
        of_server: of :func:`server.app`.
        settings: the job's own.
        of: of the coordinator. By default it expels nobody but if a test tells it to.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str = "",
        stages: int = 1,
        between: Callable[[ASGIApp], ASGIApp] = lambda app: app,
        of_server: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        **of: Any,
    ) -> None:
        self.folder = folder
        self.store = Store(f"sqlite:///{folder}/coordinator.db")
        self.coordinator = Coordinator(self.store, **{"lease": 600.0, "grace": 600.0, **of})
        self.of_server = of_server or {}
        self.between = between
        self.prefix = prefix
        self.port = 0
        self.listen()
        self.coordinator.start(start_request("delays", 2, stages, settings=settings))
        self.containers = [Container(self.coordinator, "delays", seat) for seat in ("0", "1")]
        self.batch = 0
        self.fields: dict[int, dict[str, Any]] = {}
        self.beat()

    def listen(self) -> None:
        never_reused = {"clock": itertools.count(step=1_000_000).__next__}
        app: ASGIApp = self.between(server.app(self.coordinator, **{**never_reused, **self.of_server}))
        if TRUSTING:
            app = trusting(app)
        if MUTANT:
            app = with_page(app, Path(MUTANT))
        behind = stripping(app, self.prefix) if self.prefix else app
        self.server = listening.Server(behind, listening.listen(port=self.port))  # type: ignore[arg-type]
        self.port = self.server.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}/ui/"

    @property
    def lanes(self) -> list[Lane]:
        found = (each.lane for each in self.coordinator.status("delays").lanes)
        return sorted(found, key=lambda lane: (lane.stage, lane.seat))

    def beat(self) -> None:
        """Every container says how its lanes are: each has read ten records more, of a thousand and some."""
        self.batch += 1
        reports = [(lane.seat, self.report(lane, **self.fields.get(at, {}))) for at, lane in enumerate(self.lanes)]
        for seat, container in enumerate(self.containers):
            container.beat(*(report for its, report in reports if its == str(seat)))
        self.coordinator.tick()

    def until_running(self) -> None:
        """The containers do what the coordinator wants of them, until a change is over."""
        for _ in range(20):
            self.beat()
            if self.coordinator.status("delays").state == "running":
                return
        raise AssertionError(self.coordinator.status("delays"))

    def report(self, lane: Lane, **fields: Any) -> LaneReport:
        wholes = sorted({str(ssp.whole) for ssp in lane.ssps})
        given = {
            "phase": LanePhase.ENDED if lane.state is LaneState.CLOSING else LanePhase.RUNNING,
            "begun": True,
            "folder_epoch": lane.epoch,
            "batch": self.batch,
            "positions": dict.fromkeys(wholes, 10 * self.batch),
            "ends": dict.fromkeys(wholes, 10 * self.batch + 1000),
            "rows_per_second": 512.0,
            "arriving": 550.0,
            "busy": 0.82,
            "working": 0.61,
            "span": 20.0,
            "watermark": EVENT_TIME + self.batch * 1000,
            "held_by": wholes[0],
            "batch_progress": BatchProgress(number=self.batch + 1, planned=100, done=40),
        }
        return lane_report(lane=lane.id, **{**given, **fields})

    def close(self) -> None:
        self.server.close()
        self.store.close()


def with_page(app: ASGIApp, folder: Path) -> ASGIApp:
    """The coordinator with the page of a folder, under the headers of its own."""

    async def replaced(scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].removeprefix("/ui/") or "index.html"
        path = folder / name
        if not scope["path"].startswith("/ui/") or not path.is_file():
            await app(scope, receive, send)
            return
        content, type_ = path.read_bytes(), mimetypes.guess_type(name)[0] or "text/plain"
        taken = (b"content-type", b"content-length", b"etag", b"cache-control")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [each for each in message["headers"] if each[0] not in taken]
                headers = [*own, (b"content-type", type_.encode()), (b"content-length", str(len(content)).encode())]
                await send({**message, "status": 200, "headers": headers})
            else:
                await send({"type": "http.response.body", "body": content})

        asked = [each for each in scope["headers"] if each[0] not in (b"accept-encoding", b"if-none-match")]
        await app({**scope, "path": "/ui/", "raw_path": b"/ui/", "headers": asked}, receive, answer)

    return replaced


def trusting(app: ASGIApp) -> ASGIApp:
    """A coordinator that takes all requests for its own page's."""
    says = (b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"host")

    async def unseeing(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [each for each in scope["headers"] if each[0] not in says]
        await app({**scope, "headers": [*headers, (b"host", b"localhost")]}, receive, send)

    return unseeing


def stripping(app: ASGIApp, prefix: str) -> ASGIApp:
    """What a reverse proxy does that takes a prefix off: the application never hears of it."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        inside = scope["path"].startswith(f"{prefix}/")
        path = scope["path"].removeprefix(prefix) if inside else "/nowhere"
        await app({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    return proxy
