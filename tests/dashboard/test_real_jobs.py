"""The page of a job that really runs: what it predicts and measures, and what it shows of a process that freezes."""

from __future__ import annotations

import json
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from anabranch.systems.embedded import layout, partition
from tests.acceptance.harness import Workspace, record_batch
from tests.dashboard.conftest import SLOWEST, Visit, settled, until
from tests.jobs import JOBS
from tests.soak.failover import ended_fenced
from tests.soak.served import Served, ended_well, seat_of

pytestmark = pytest.mark.acceptance
expect.set_options(timeout=SLOWEST)

PARTITIONS, EVERY, NEAR = 2, 0.1, 0.3


@contextmanager
def fed(workspace: Workspace) -> Iterator[None]:
    """Records arrive all the time, in each partition."""
    over = threading.Event()

    def feed() -> None:
        number = 0
        while not over.wait(EVERY):
            numbers = range(number, number + 8)
            values = [json.dumps({"number": each}).encode() for each in numbers]
            workspace.append("asked", record_batch([f"who-{each % 8}".encode() for each in numbers], values))
            number = numbers.stop

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def writes(workspace: Workspace, stream: str) -> dict[str, list[float]]:
    """When each lane wrote something to a stream, in seconds since 1970."""
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(PARTITIONS if stream in workspace.system.streams() else 0):
        folder = layout.manifest_folder(str(workspace.folder / ".anabranch" / "streams"), stream, number)
        entries = (partition.read(folder, each) for each in sorted(partition.sequences(folder)))
        for entry in filter(None, entries):
            if entry.rows:
                found[entry.lane].append(entry.at / 1000)
    return found


def stopwatch(workspace: Workspace, stream: str, client: Any, before: set[str]) -> float:
    """The longest time from the last thing that a lane's predecessors wrote to the first that the lane wrote."""
    wrote, lanes = writes(workspace, stream), client.known_lanes(workspace.job)
    followers = [each for each in lanes.values() if before & set(each.predecessors)]
    return max(min(wrote[each.id]) - max(max(wrote[name]) for name in each.predecessors) for each in followers)


def fact(page: Page, name: str) -> str:
    return page.locator(f"dt:text-is('{name}') + dd").first.inner_text()


def test_a_scale_is_what_the_plan_said_and_its_pause_is_the_one_of_the_outputs(tmp_path: Path, visit: Visit) -> None:
    workspace = Workspace(tmp_path, job=JOBS / "slow.py")
    workspace.system.create("asked", PARTITIONS)
    try:
        with fed(workspace):
            run = workspace.start("run", "slow.py")
            run.until("output", lambda: sum(map(len, writes(workspace, "done").values())) > 6)
            with workspace.client(workspace.url) as client:
                token = workspace.folder / ".anabranch" / "coordinator.db.token"
                login = f"#/login?token={token.read_text().strip()}&next=/jobs/slow/changes/new?kind=scale%26factor=4"
                page = visit(f"{workspace.url}/ui/{login}")
                expect(page.get_by_role("button", name="Apply to generation 1")).to_be_enabled()
                told = json.loads(workspace.call("plan", "scale", "slow", "--factor", "4", "--json").stdout)
                assert fact(page, "lanes").startswith(f"closes {len(told['closing'])}, starts {len(told['lanes'])}")
                assert fact(page, "after it") == f"factor 4, {told['containers']} container"
                assert fact(page, "tasks that move") == str(told["moved"])
                before = {each["id"] for each in told["closing"]}
                assert all(page.get_by_text(name).count() for name in before)

                page.get_by_role("button", name="Apply to generation 1").click()
                page.wait_for_url("**/changes")
                until(lambda: bool(client.changes("slow")) and client.changes("slow")[0].measured_pause is not None)
                (change,) = client.changes("slow")
                assert (change.outcome, change.kind, change.generation) == ("done", "scale", 2)
                page.locator("[data-row] a").first.click()
                expect(page.locator("main")).to_contain_text("measured")
                assert change.measured_pause is not None
                assert change.predicted_pause is not None
                until(lambda: fact(page, "measured") == f"{change.measured_pause:.1f} s")
                assert change.paused_lane in {each.lane.id for each in client.status("slow").lanes}
                assert fact(page, "longest for") == f"lane {change.paused_lane}"
                assert fact(page, "predicted") == f"{change.predicted_pause:.1f} s"
                seen = stopwatch(workspace, "done", client, before)
                assert abs(change.measured_pause - seen) < NEAR, (change, seen)
                assert client.status("slow").factor == 4
        run.popen.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.stderr
    finally:
        workspace.close()


@pytest.mark.long
def test_a_process_that_freezes_is_seen_to_lose_its_seat_and_another_goes_on(tmp_path: Path, visit: Visit) -> None:
    workspace = Workspace(tmp_path)
    try:
        served = Served(workspace, count=4800, seed=11)
        served.start(for_good=True)
        first = served.container()
        served.until_under_way(first)
        frozen = seat_of(first)
        second = workspace.start("container", "delays", "--coordinator", served.url)
        second.until("it stands by", lambda: "standing by" in second.stderr)
        with workspace.client(served.url) as client:
            token = next(each for each in (workspace.folder / ".anabranch").glob("*.token"))
            page = visit(f"{served.url}/ui/#/login?token={token.read_text().strip()}&next=/jobs/delays/containers")
            settled(page, "#/jobs/delays/partitions?by=time")
            times = page.locator("section[aria-label='Partitions'] [data-row]")
            expect(times.first).to_contain_text("2013-01-01")
            settled(page, "#/jobs/delays/containers")
            row = page.locator(f"[data-row='{frozen}']")
            expect(row).to_contain_text("alive")
            epochs = {each.lane.id: each.lane.epoch for each in client.status("delays").lanes}
            first.freeze()
            expect(row).to_contain_text("lost")
            expect(row).to_contain_text("it sent no heartbeat for")
            until(lambda: seat_of(second) is not None)
            expect(page.locator(f"[data-row='{seat_of(second)}']")).to_contain_text("alive")
            until(lambda: all(each.lane.epoch > epochs[each.lane.id] for each in client.status("delays").lanes))
            first.wake()
            ended_fenced(first)
            settled(page, "#/jobs/delays/events")
            expect(page.locator(".log [data-row]")).not_to_have_count(0)
            lines = list(reversed(page.locator(".log [data-row]").all_inner_texts()))
            wanted = (
                [f"{frozen} has lost its seat", "no heartbeat"],
                ["is fenced", next(iter(epochs))],
                [f"{seat_of(second)} took seat 0"],
            )
            places = [
                next((at for at, line in enumerate(lines) if all(word in line for word in words)), -1)
                for words in wanted
            ]
            assert -1 not in places, lines
            assert places == sorted(set(places)), lines
            client.stop("delays")
        ended_well(second)
        served.end()
    finally:
        workspace.close()
