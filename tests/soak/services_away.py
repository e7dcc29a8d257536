"""A service on which a job depends doesn't answer for five minutes: its store, or the schema registry."""

from __future__ import annotations

import io
import json
import random
import signal
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import fastavro

from tests.acceptance.harness import INPUT, JOB, Flight, Process, Workspace, flights, record_batch
from tests.jobs import JOBS
from tests.soak.served import Served, ended_well
from tests.soak.with_functions import in_turn
from tests.support import postgres, registry
from tests.support.calm import until_calm
from tests.support.proxy import Proxy

__all__ = ["services_away"]

SECONDS, BEFORE = 300.0, 40.0
PORTION, EVERY = 200, 4.0
"""So many records are put every so many seconds."""
GOES_ON_WITHIN = 30.0
COUNT = int((SECONDS + 3 * BEFORE) / EVERY) * PORTION
NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "number", "type": "int"}]}


def services_away(seed: int, workspace: Workspace) -> str:
    """By seed, one of :data:`CASES`: a service is away for five minutes, while records keep coming. What comes out
    keeps its rate, all verbs work again soon after the service is back, and at the end all is there once.
    """
    name, functions = list(CASES)[seed % len(CASES)], in_turn(seed, len(CASES), workspace)
    return f"{name}{functions}: {CASES[name](seed, workspace)}"


@dataclass
class _Feed:
    """Flights that are put at a steady rate, and how long each portion takes to be read."""

    workspace: Workspace
    process: Process
    several: list[Flight]
    put: int

    def feed(self, seconds: float) -> float:
        """The median of the seconds that portions took in this time."""
        self.until_read()
        lags = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            self.workspace.put(self.several[self.put : self.put + PORTION])
            self.put += PORTION
            self.until_read()
            lags.append(time.monotonic() - begun)
            time.sleep(max(0.0, begun + EVERY - time.monotonic()))
        return statistics.median(lags)

    def until_read(self) -> None:
        read = self.workspace.read
        self.process.until("all to be read", lambda: min(read("0-"), read("1-")) >= self.put)


Away = Callable[[], Any]


def _under_run(seed: int, workspace: Workspace, away: Away) -> str:
    """``run`` with a store that is away."""
    several = flights(seed, PORTION + COUNT)
    workspace.put(several[:PORTION])
    process = workspace.start("run", f"{JOB}.py")
    feed = _Feed(workspace, process, several, PORTION)
    told = _fed(feed, away)
    process.popen.send_signal(signal.SIGTERM)
    ended_well(process)
    workspace.finish()  # windows that the last batches have ended come out, too
    workspace.check_outputs(several[: feed.put])
    return told


def _under_coordinator(seed: int, workspace: Workspace, away: Away, store: str | None = None) -> str:
    """A coordinator and a container, with a store that is away."""
    served = Served(workspace, PORTION, seed, store, later=COUNT)
    workspace.settings["job__max_rows_per_batch"] = 2 * PORTION  # for the container, too
    served.start(for_good=True)
    process = served.container()
    feed = _Feed(workspace, process, served.flights + served.later, PORTION)
    told = _fed(feed, away, coordinator__url=served.url)
    assert not served.coordinator.ended, served.coordinator.stderr
    until_calm(workspace.client(served.url), JOB, workspace.whole_ends(INPUT), process.until)
    workspace.call("stop", JOB, coordinator__url=served.url)
    ended_well(process)
    served.flights = feed.several[: feed.put]
    served.check()
    return told


def _fed(feed: _Feed, away: Away, **settings: Any) -> str:
    """Feed a job before, while its store is away, and after a change of the job. What was seen."""
    before = feed.feed(BEFORE)
    with away():
        during = feed.feed(SECONDS)
        status = feed.workspace.start("status", JOB, **settings)
        status.wait()
        assert "Traceback" not in status.stderr, status.stderr
        assert postgres.PASSWORD not in status.stderr, status.stderr
    begun = time.monotonic()
    while feed.workspace.start("status", JOB, **settings).wait() != 0:
        assert time.monotonic() < begun + GOES_ON_WITHIN, f"status doesn't work again:\n{feed.process.stderr}"
    feed.workspace.call("scale", JOB, "--factor", "2", **settings)
    took = time.monotonic() - begun
    assert took <= GOES_ON_WITHIN, f"it was scaled {took:.0f} s after the store was back"
    feed.workspace.call("scale", JOB, "--factor", "1", **settings)
    after = feed.feed(BEFORE)
    assert max(during, after) <= 2 * before + 1, f"portions took {before:.1f} s, {during:.1f} s, then {after:.1f} s"
    said = (status.stdout + status.stderr).strip().splitlines()
    return (
        f"portions took {before:.1f} s before, {during:.1f} s meanwhile, {after:.1f} s afterwards; another factor "
        f"{took:.1f} s after the store was back; status said meanwhile, with {status.popen.returncode}: "
        f"{' '.join(said)[:300]}"
    )


def _postgresql(seed: int, workspace: Workspace) -> str:
    """The server is stopped, or crashes."""
    how = random.Random(seed).choice([signal.SIGINT, signal.SIGQUIT])
    with postgres.serving() as server:

        @contextmanager
        def away() -> Iterator[None]:
            server.stop(how)
            yield
            server.start()

        return _under_coordinator(seed, workspace, away, server.new_database())


def _locked(run: Callable[[int, Workspace, Away], str]) -> Callable[[int, Workspace], str]:
    """SQLite's file is locked by another process, as by a tool that copies it."""

    def case(seed: int, workspace: Workspace) -> str:
        @contextmanager
        def away() -> Iterator[None]:
            file = workspace.folder / ".anabranch" / "coordinator.db"
            with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                yield
                other.execute("ROLLBACK")

        return run(seed, workspace, away)

    return case


def _registry(seed: int, workspace: Workspace) -> str:
    """The schema registry hangs, or is too busy. The job can't start for the first time then; once it has, it doesn't
    need the registry, not even to start again after a kill.
    """
    folder = workspace.folder
    (folder / "number.avsc").write_text(json.dumps(NUMBER))
    with registry.serving() as served, Proxy(int(served.url.rpartition(":")[2])) as between:
        job = Workspace(
            folder,
            workspace.cluster,
            JOBS / "registered.py",
            patience=workspace.patience,
            formats__registry=between.url,
            streams__in__format="confluent",
            streams__out__format="confluent",
            streams__out__schema_file=folder / "number.avsc",
        )
        frame = b"\0" + served.register("in-value", NUMBER).to_bytes(4, "big")
        job.system.create("in", 2)
        put = 0

        def feed(process: Process) -> None:
            nonlocal put
            several = [frame + _avro(number) for number in range(put, put + PORTION)]
            job.append("in", record_batch([str(number).encode() for number in range(put, put + PORTION)], several))
            put += PORTION
            process.until("all to be read", lambda: job.read("0-") >= put)

        hangs = random.Random(seed).random() < 0.5

        @contextmanager
        def away() -> Iterator[None]:
            if hangs:
                between.cut()
            else:
                served.busy = 1_000_000
            yield
            served.busy = 0
            between.heal()

        with away():
            first = job.start("run", "registered.py")
            assert first.wait() == 1, first.stderr
            assert first.stderr.count("error: ") == 1, first.stderr
            assert "Traceback" not in first.stderr, first.stderr
        process = job.start("run", "registered.py")
        feed(process)
        with away():
            end = time.monotonic() + SECONDS / 2
            while time.monotonic() < end:
                feed(process)
                time.sleep(EVERY)
            process.kill()
            process = job.start("run", "registered.py")
            end = time.monotonic() + SECONDS / 2
            while time.monotonic() < end:
                feed(process)
                time.sleep(EVERY)
        feed(process)
        process.popen.send_signal(signal.SIGTERM)
        ended_well(process)
        found = sorted(_number(value[5:]) for _, _, value, _ in job.raw("out"))
        assert found == list(range(0, put, 2)), f"{len(found)} of {put // 2}"
        error = first.stderr[first.stderr.index("error: ") :].strip().replace("\n", " ")
    return f"{'hung' if hangs else 'busy'}; a first start said: {error[:300]}"


def _avro(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, NUMBER, {"number": number})
    return out.getvalue()


def _number(value: bytes) -> int:
    row: Any = fastavro.schemaless_reader(io.BytesIO(value), NUMBER, None)
    return int(row["number"])


CASES: dict[str, Callable[[int, Workspace], str]] = {
    "PostgreSQL": _postgresql,
    "SQLite locked, with run": _locked(_under_run),
    "registry": _registry,
    "SQLite locked, with a coordinator": _locked(_under_coordinator),
}
