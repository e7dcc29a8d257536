"""Coordinators on one store: the one that leads serves its jobs and has lanes fenced, the others refuse to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from anabranch.coordinator.api import server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.launcher.launcher import Launcher, Staffed
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.leadership.fencers import Fencers
from anabranch.coordinator.leadership.leadership import Leadership
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, NotLeadingError, StoreUnavailableError
from anabranch.model.document import compact
from anabranch.model.lane import Lane
from anabranch.protocol.commands import AssignRequest, ExpandRequest, RewindRequest, ScaleRequest
from anabranch.protocol.container import Heartbeat, Registration
from anabranch.protocol.deployment import DeployRequest, RollbackRequest
from anabranch.protocol.drain import DrainNotification
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, plan, wanted
from tests.unit.coordinator.programs import PROGRAM

LEASE, GRACE = 10.0, 2.0
AGAIN = 2.0
HASH = "a" * 64
ME = Registration(job="delays", execution="execution-1", host="here", pid=1)


class Launches(Launcher):
    """``done``: what it was asked for."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def forget(self) -> None:
        self.done.append("forget")

    def turn(self, coordinator: Staffed) -> None:
        coordinator.demands([])
        self.done.append("turn")


class AtOnce(Executor):
    """Does what it is given before it returns."""

    def submit(self, do: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future = Future[Any]()
        future.set_result(do(*given, **named))
        return future


class One:
    """A coordinator whose turns are taken by hand. ``fenced``: the lanes that it fenced, with their epochs."""

    def __init__(self, url: str, name: str, clock: Clock) -> None:
        self.url = f"http://{name}:1"
        self.store_url = url
        self.store = Store(url)
        self.fenced: list[tuple[str, int]] = []
        self.broken = ""
        self.served = Coordinator(self.store, clock, LEASE, now=lambda: 7.0, grace=GRACE)
        self.election = Election(self.store, self.url, clock, LEASE, GRACE)
        self.launches = Launches()
        fencers = Fencers(AGAIN, clock, lambda job: AtOnce())
        self.leadership = Leadership(
            self.served, self.store, url, self.election, self.url, self._fence, self.launches, fencers
        )

    def _fence(self, lane: Lane, settings: Mapping[str, Any]) -> None:
        assert settings == PROGRAM.settings
        if self.broken:
            raise AnabranchError(self.broken)
        self.fenced.append((lane.id, lane.epoch))

    def turn(self) -> bool:
        """A turn with all the fences that it hands out; gives whether it leads."""
        self.leadership.turn()
        return self.leadership.leads

    def asked(self, token: str | None = None) -> TestClient:
        return TestClient(server.app(self.served, self.leadership, token), raise_server_exceptions=False)

    def close(self) -> None:
        self.leadership.step_down()
        self.store.close()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterator[Callable[[str], One]]:
    ones: list[One] = []

    def made(name: str) -> One:
        ones.append(One(f"sqlite:///{tmp_path}/coordinator.db", name, clock))
        return ones[-1]

    yield made
    for one in ones:
        one.close()


def begun(one: One) -> Seat:
    """A job with a process that runs its lanes."""
    one.leadership.start(plan(program=PROGRAM))
    seat = Seat(one.served)
    seat.beat()
    seat.report("running", folder_epoch=seat.me.epoch)
    return seat


def take_over(one: One, clock: Clock) -> None:
    """Lead, once the former leader's lease and the grace are over."""
    assert not one.turn()
    clock.at += LEASE + GRACE + 0.1
    assert one.turn()


def test_it_serves_the_jobs_of_the_store_from_when_it_leads(make: Callable[[str], One], clock: Clock) -> None:
    first, second = make("a"), make("b")
    assert not first.leadership.leads
    with pytest.raises(NotLeadingError, match="no coordinator leads now"):
        first.leadership.check()
    assert first.turn()
    seat = begun(first)
    assert not second.turn()
    with pytest.raises(NotLeadingError, match=f"stands by; {first.url} leads") as caught:
        second.leadership.check()
    assert caught.value.cure == f"ask {first.url}"
    assert second.served.status("delays").served is False

    first.leadership.step_down()
    take_over(second, clock)
    assert second.served.status("delays").state == "running"
    seat.coordinator = second.served
    assert wanted(seat.report("running")) == [FIRST, SECOND]
    assert second.served.fences() == []


def test_it_launches_while_it_leads_and_knows_nothing_when_it_comes_to_lead(
    make: Callable[[str], One], clock: Clock
) -> None:
    first, second = make("a"), make("b")
    assert first.served.registry.has_launcher
    assert first.turn()
    begun(first)
    first.launches.done.clear()
    assert first.turn()
    assert not second.turn()
    first.leadership.step_down()
    take_over(second, clock)
    assert not first.turn()
    assert second.turn()
    assert (first.launches.done, second.launches.done) == (["turn"], ["forget", "turn", "turn"])


ROUTES: dict[str, tuple[str, str, Any]] = {
    "start": ("POST", "/jobs", plan(program=PROGRAM)),
    "resume": ("POST", "/jobs/delays/start", None),
    "stop": ("POST", "/jobs/delays/stop", None),
    "cancel": ("POST", "/jobs/delays/cancel", None),
    "scale": ("POST", "/jobs/delays/scale", ScaleRequest(factor=2)),
    "deploy": ("POST", "/jobs/delays/deploy", DeployRequest(start=plan())),
    "rollback": ("POST", "/jobs/delays/rollback", RollbackRequest()),
    "drain": ("POST", "/jobs/delays/drain", DrainNotification(uuid="u", run_id=1)),
    "rewind": ("POST", "/jobs/delays/rewind", RewindRequest(to="earliest")),
    "expand": ("POST", "/jobs/delays/expand", ExpandRequest()),
    "assign": ("POST", "/jobs/delays/assign", AssignRequest()),
    "artifact": ("PUT", f"/artifacts/{HASH}", b"code"),
    "register": ("POST", "/containers", ME),
    "beat": ("POST", "/containers/delays:0:1/heartbeat", Heartbeat(container="delays:0:1", epoch=1, number=99)),
    "fence": ("POST", "/containers/delays:0:1/fence", None),
    "assignment": ("GET", "/jobs/delays/assignment", None),
    "sizing": ("GET", "/jobs/delays/sizing", None),
    "running": ("GET", "/jobs/delays/running", None),
    "alive": ("GET", "/containerHeartbeat?executionContainerId=execution-1", None),
}


def ask(client: TestClient, name: str) -> tuple[int, Any]:
    method, path, body = ROUTES[name]
    given: dict[str, Any] = {}
    if body is not None:
        kind = "application/zip" if isinstance(body, bytes) else "application/json"
        given = {"content": body if isinstance(body, bytes) else compact(body), "headers": {"Content-Type": kind}}
    answer = client.request(method, path, **given)
    return answer.status_code, answer.json()


def test_every_route_that_changes_something_is_tried_here(make: Callable[[str], One]) -> None:
    routes = server.app(make("a").served).routes
    changing = {(method, route.path) for route in routes for method in route.methods - {"GET", "HEAD"}}  # type: ignore[attr-defined]
    tried = {
        (method, path.replace("delays:0:1", "{container}").replace("delays", "{job}").replace(HASH, "{sha256}"))
        for method, path, _ in ROUTES.values()
        if method != "GET"
    }
    assert changing == tried


@pytest.mark.parametrize("name", sorted(ROUTES))
@pytest.mark.parametrize("how", ["stands by", "was deposed", "lost its lease"])
@pytest.mark.suite(cases=19)
def test_who_doesn_t_lead_refuses_what_only_a_leader_may_say(
    make: Callable[[str], One], clock: Clock, name: str, how: str
) -> None:
    first, second = make("a"), make("b")
    assert first.turn()
    begun(first)
    assert not second.turn()
    asked = second if how == "stands by" else first
    clock.at += {"stands by": 0.0, "was deposed": LEASE + GRACE + 0.1, "lost its lease": LEASE}[how]
    if how == "was deposed":
        assert second.turn()
    before = first.store.lanes("delays"), first.store.events("delays", 100), first.store.containers("delays")
    with asked.asked() as client:
        status, said = ask(client, name)
        assert (status, said["kind"]) == (503, "NotLeadingError")
        assert client.get("/healthz").status_code == 200
        assert client.get("/jobs").json()["jobs"][0]["job"] == "delays"
    assert before == (first.store.lanes("delays"), first.store.events("delays", 100), first.store.containers("delays"))
    assert first.store.artifact(HASH) is None


def test_who_loses_stands_by_and_another_goes_on(make: Callable[[str], One], clock: Clock) -> None:
    """The former one is paused, and holds the job's lock for as long; then it lets go."""
    first, second = make("a"), make("b")
    assert first.turn()
    seat = begun(first)
    take_over(second, clock)
    assert "delays" not in second.served.registry.jobs
    seat.coordinator = second.served
    with pytest.raises(NotLeadingError):
        seat.report("running")
    assert not first.turn()
    assert first.served.registry.jobs == {}
    assert second.turn()
    assert seat.report("running").alive
    with pytest.raises(NotLeadingError):
        first.served.heartbeat(Heartbeat(container=seat.me.container, epoch=seat.me.epoch, number=99))


def test_who_was_paused_and_leads_still_takes_nothing_away(make: Callable[[str], One], clock: Clock) -> None:
    only = make("a")
    assert only.turn()
    seat = begun(only)
    clock.at += 10 * LEASE
    assert only.turn()
    assert [one.id for one in only.store.containers("delays")] == [seat.me.container]
    assert seat.report("running").alive
    for _ in range(2):
        clock.at += LEASE - 1
        assert only.turn()
    assert sorted(only.fenced) == [(SECOND, seat.me.epoch + 1), (FIRST, seat.me.epoch + 1)]


MOMENTS: dict[str, Callable[[One], tuple[object, str]]] = {
    "before it renews its lease": lambda one: (one.election, "step"),
    "while it renews its lease": lambda one: (one.store, "renew"),
    "before it expels processes": lambda one: (one.served, "tick"),
    "while it advances another job": lambda one: (one.served.registry, "advance"),
}


def freeze(clock: Clock, patch: pytest.MonkeyPatch, owner: object, method: str) -> None:
    """Have the process frozen for ten leases when it next calls a method."""
    goes_on: Callable[..., Any] = getattr(owner, method)

    def frozen(*given: Any, **named: Any) -> Any:
        patch.setattr(owner, method, goes_on)
        clock.at += 10 * LEASE
        return goes_on(*given, **named)

    patch.setattr(owner, method, frozen)


@pytest.mark.parametrize("moment", sorted(MOMENTS))
def test_who_was_frozen_within_a_turn_takes_nothing_away(
    make: Callable[[str], One], clock: Clock, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    only = make("a")
    assert only.turn()
    only.leadership.start(plan("another", program=PROGRAM))
    seat = begun(only)
    freeze(clock, monkeypatch, *MOMENTS[moment](only))
    before = clock.at
    for _ in range(2):
        leads = only.turn()
        assert [one.id for one in only.store.containers("delays")] == [seat.me.container]
    assert leads
    assert clock.at == before + 10 * LEASE
    assert seat.report("running").alive


@pytest.mark.parametrize("renewed", [False, True])
def test_who_was_frozen_within_a_registration_takes_nothing_away(
    make: Callable[[str], One], clock: Clock, renewed: bool
) -> None:
    """The thread that takes turns may have renewed the lease meanwhile."""
    only = make("a")
    assert only.turn()
    seat = begun(only)
    clock.at += 10 * LEASE
    assert only.election.step() if renewed else not only.election.leads
    assert only.served.register(msgspec.structs.replace(ME, pid=2)).seat is None
    assert [one.id for one in only.store.containers("delays")] == [seat.me.container]


def test_what_was_left_over_from_leading_before_is_forgotten(make: Callable[[str], One], clock: Clock) -> None:
    """A request that was under way when it stopped leading served the job once more."""
    first, second = make("a"), make("b")
    assert first.turn()
    seat = begun(first)
    leftover = dict(first.served.registry.jobs)
    first.leadership.step_down()
    take_over(second, clock)
    second.served.stop("delays")
    seat.coordinator = second.served
    seat.report("ended")
    assert second.store.deployment("delays").state == "stopped"  # type: ignore[union-attr]
    first.served.registry.jobs.update(leftover)
    second.leadership.step_down()
    assert not first.turn()
    take_over(first, clock)
    assert first.served.status("delays").state == "stopped"
    assert first.leadership.resume("delays") == 1


def test_lanes_are_fenced_and_what_fails_is_tried_again(make: Callable[[str], One], clock: Clock) -> None:
    one = make("a")
    assert one.turn()
    seat = begun(one)
    one.broken = "no broker answers"
    with capture_logs() as lines:
        for _ in range(4):
            clock.at += (LEASE + GRACE) / 2 - 0.5
            one.turn()
    assert one.fenced == []
    assert [fence.lane.id for fence in one.served.fences()] == [FIRST, SECOND]
    told = [(event.what, event.why) for event in one.served.events("delays", 100)]
    assert told.count((f"lane {FIRST} can't be fenced yet", "no broker answers")) == 1
    assert [line["lane"] for line in lines if "can't be fenced yet" in line["event"]] == [FIRST, SECOND]
    assert one.served.register(msgspec.structs.replace(ME, pid=2)).seat is None
    one.broken = ""
    one.turn()
    assert one.fenced == [], "the last attempt was just now"
    clock.at += AGAIN
    one.turn()
    epoch = seat.me.epoch + 1
    assert sorted(one.fenced) == [(SECOND, epoch), (FIRST, epoch)]
    assert one.served.fences() == []
    one.turn()
    assert len(one.fenced) == 2
    assert one.served.register(msgspec.structs.replace(ME, pid=2)).seat == "0"


def test_another_leader_fences_what_was_left(make: Callable[[str], One], clock: Clock) -> None:
    first, second = make("a"), make("b")
    assert first.turn()
    begun(first)
    first.broken = "no broker answers"
    for _ in range(3):
        clock.at += LEASE - 1
        first.turn()
    assert first.served.fences()
    first.leadership.step_down()
    take_over(second, clock)
    assert sorted(lane for lane, _ in second.fenced) == [SECOND, FIRST]
    assert second.served.fences() == []


def test_a_job_that_another_process_runs_is_left_to_it(make: Callable[[str], One], clock: Clock) -> None:
    first, second = make("a"), make("b")
    assert first.turn()
    begun(first)
    first.leadership.step_down()
    lock = endpoint.RunLock(first.store_url, "delays")
    with lock:
        take_over(second, clock)
        assert second.served.status("delays").served is False
        with pytest.raises(ConflictError, match="already running here"):
            second.leadership.resume("delays")
    assert second.turn()
    assert second.served.status("delays").served


def test_a_job_that_cannot_be_served_is_tried_again_seconds_later_and_told_once_for_each_reason(
    make: Callable[[str], One], clock: Clock
) -> None:
    first, second = make("a"), make("b")
    assert first.turn()
    begun(first)
    first.leadership.step_down()
    note = endpoint.run_folder(first.store_url) / "delays.json"
    note.mkdir()
    with capture_logs() as lines:
        take_over(second, clock)
        note.rmdir()
        for _ in range(3):
            assert second.turn()
        assert not second.served.status("delays").served, "it was tried just now"
        note.mkdir()
        for _ in range(3):
            clock.at += 5.0
            assert second.turn()
        note.rmdir()
        clock.at += 5.0
        assert second.turn()
    assert second.served.status("delays").served
    told = [line for line in lines if line.get("job") == "delays" and line["log_level"] == "warning"]
    assert [line["event"] for line in told] == ["a job can't be served yet; it is tried again"]


def test_a_job_that_cannot_be_served_is_told_again_by_who_leads_again(
    make: Callable[[str], One],
) -> None:
    one = make("a")
    assert one.turn()
    begun(one)
    with capture_logs() as lines:
        for _ in range(2):
            one.leadership.step_down()
            note = endpoint.run_folder(one.store_url) / "delays.json"
            note.mkdir()
            assert one.turn()
            note.rmdir()
    told = [line["event"] for line in lines if line.get("job") == "delays" and line["log_level"] == "warning"]
    assert told == ["a job can't be served yet; it is tried again"] * 2


def test_a_job_that_the_store_could_not_give_for_a_moment_is_served_at_the_next_turn(
    make: Callable[[str], One], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(job: str) -> bool:
        raise StoreUnavailableError("no answer")

    one = make("a")
    assert one.turn()
    begun(one)
    one.leadership.step_down()
    with monkeypatch.context() as away:
        away.setattr(one.served, "adopt", fails)
        assert one.turn()
    assert one.turn()
    assert one.served.status("delays").served


@pytest.mark.parametrize("error", [StoreUnavailableError("no answer"), KeyError("a lane")])
def test_a_turn_that_fails_again_and_again_is_told_once(
    make: Callable[[str], One], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    one, turns = make("a"), threading.Semaphore(0)

    def fails() -> None:
        turns.release()
        raise error

    monkeypatch.setattr(one.served, "tick", fails)
    with capture_logs() as lines, one.leadership:
        for _ in range(3):
            assert turns.acquire(timeout=20)
    told = [line for line in lines if "tries again" in line["event"]]
    assert len(told) == 1


def test_a_start_that_fails_leaves_the_job_to_others(make: Callable[[str], One]) -> None:
    one = make("a")
    assert one.turn()
    one.leadership.start(plan(program=PROGRAM))
    one.served.stop("delays")
    one.leadership.step_down()
    assert one.turn()
    with pytest.raises(ConflictError, match="differs from the one that was started here"):
        one.leadership.start(plan(program=PROGRAM, fingerprint={"graph": "b"}))
    with endpoint.RunLock(one.store_url, "delays"):
        pass


def test_a_job_that_is_started_while_it_is_looked_at_keeps_its_lock(
    make: Callable[[str], One], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make("a")
    assert one.turn()
    one.leadership.start(plan(program=PROGRAM))
    one.served.stop("delays")
    one.leadership.step_down()
    adopt, request = one.served.adopt, threading.Thread(target=one.leadership.resume, args=("delays",))

    def slowly(job: str) -> bool:
        adopted = adopt(job)
        request.start()
        request.join(0.3)  # the request waits for longer
        return adopted

    monkeypatch.setattr(one.served, "adopt", slowly)
    assert one.turn()
    request.join()
    assert one.served.status("delays").served
    with pytest.raises(ConflictError, match="already running here"), endpoint.RunLock(one.store_url, "delays"):
        pass


def test_it_resigns_when_it_ends(make: Callable[[str], One]) -> None:
    first, second = make("a"), make("b")
    assert first.turn()
    with first.leadership:
        pass
    assert not first.leadership.leads
    assert second.turn()


# The token


@pytest.fixture
def guarded(make: Callable[[str], One]) -> Iterator[TestClient]:
    one = make("a")
    assert one.turn()
    begun(one)
    with one.asked("secret") as client:
        yield client


READING = ["/jobs", "/jobs/delays", "/jobs/delays/model", "/jobs/delays/running", "/jobs/delays/lanes"]
READING += ["/jobs/delays/events", f"/artifacts/{HASH}", "/containerHeartbeat?executionContainerId=x", "/nowhere"]


@pytest.mark.parametrize("brought", [None, "Bearer wrong", "Bearer ", "secret", "Basic secret", "bearer secret"])
def test_nothing_is_told_or_done_without_the_token(
    guarded: TestClient, brought: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = {} if brought is None else {"Authorization": brought}
    asked = [("GET", path) for path in READING] + [(method, path) for method, path, _ in ROUTES.values()]
    for method, path in asked:
        capsys.readouterr()
        answer = guarded.request(method, path, headers=headers, content=b"x" if method != "GET" else None)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"] == "the token is missing or wrong"
        said = capsys.readouterr().out.splitlines()
        assert len(said) == 1
        assert "status=401" in said[0]
        assert "secret" not in said[0]
    assert guarded.get("/healthz", headers=headers).status_code == 200


def test_the_token_opens_every_route(guarded: TestClient) -> None:
    guarded.headers["Authorization"] = "Bearer secret"
    for path in ("/jobs", "/jobs/delays", "/jobs/delays/model", "/jobs/delays/running", "/jobs/delays/lanes"):
        assert guarded.get(path).status_code == 200
    assert guarded.get("/nowhere").status_code == 404
    assert ask(guarded, "register")[0] == 200
    assert guarded.get(ROUTES["alive"][1]).json() == {"alive": True}
