"""The files and bytes that a running job leaves behind, and how much a long history slows down the verbs.

A job with a window and an intermediate stream runs about three batches a second. The command examines the job after a
short and after a long time. Whatever hasn't grown between the two is assumed to stay the same; what has grown is
extrapolated to a month.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from tests.support.interruption import interruptible

from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA

JOB = """
from anabranch import Job, tumbling

job = Job("growing")
read = job.read("in", key="k string", schema="n int")
again = read.partition_by("n")
again.window(tumbling("10 seconds"), time="processing").agg(c="count(*)", name="counted").write("out")
"""
A_MONTH = 30 * 24 * 60
EVERY = 0.3
FOLDERS = {
    "lanes: offsets": "lanes/*/*/*/offsets/*",
    "lanes: commits": "lanes/*/*/*/commits/*",
    "lanes: state": "lanes/*/*/*/state/**/*",
    "log: segments": "streams/*/*/segments/*",
    "log: manifests": "streams/*/*/manifest/*",
    "store": "coordinator.db*",
    "run": "run/*",
}


@dataclass(frozen=True)
class Look:
    """What was found at one moment.

    Attributes:
        minutes: since the first batch.
        files: the number of files, by kind.
        bytes: the size of the files, by kind.
        seconds: how long each verb took.
    """

    minutes: float
    batches: int
    files: Mapping[str, int]
    bytes: Mapping[str, int]
    events: int
    seconds: Mapping[str, float]


class Running:
    """A job in a folder of its own, whose input receives records while the job runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = folder / ".anabranch"
        (folder / "growing.py").write_text(JOB)
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._system = EmbeddedSystem(self._home / "streams")
        self._system.create("in", 2)

    @contextmanager
    def runs(self) -> Iterator[float]:
        """Run the job inside the block. Yields how many seconds it took until the first new batch was committed."""
        before, begun = self.batches(), time.monotonic()
        process = self._started("run", "growing.py")
        over = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(over,), daemon=True)
        feeder.start()
        try:
            while self.batches() <= before:
                if process.poll() is not None:
                    raise SystemExit((self._folder / "printed").read_text())
                time.sleep(0.1)
            yield time.monotonic() - begun
        finally:
            over.set()
            feeder.join()
            process.send_signal(signal.SIGTERM)
            process.wait(120)

    def batches(self) -> int:
        """The number of batches that the lane with the most batches has committed."""
        numbers = (int(path.name) for path in self._home.glob("lanes/*/*/*/commits/[0-9]*"))
        return max(numbers, default=-1) + 1

    def look(self, minutes: float) -> Look:
        files, size = {}, {}
        for kind, pattern in FOLDERS.items():
            found = [path for path in self._home.glob(pattern) if path.is_file()]
            files[kind], size[kind] = len(found), sum(map(_bytes, found))
        temporary = [path for path in self._temporary.rglob("*") if path.is_file()]
        files["temporary"], size["temporary"] = len(temporary), sum(map(_bytes, temporary))
        store = sqlite3.connect(f"file:{self._home / 'coordinator.db'}?mode=ro", uri=True)
        ((events,),) = store.execute("SELECT count(*) FROM events").fetchall()
        store.close()
        verbs = {verb: self._timed(verb, "growing") for verb in ("status", "events")}
        return Look(minutes, self.batches(), files, size, events, verbs)

    def _timed(self, *words: str) -> float:
        begun = time.monotonic()
        if self._started(*words, "--json").wait(120):
            raise SystemExit((self._folder / "printed").read_text())
        return time.monotonic() - begun

    def _started(self, *words: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "ANABRANCH__JOB__INTERVAL": f"{round(EVERY * 1000)} milliseconds"}
        env |= {"ANABRANCH__JOB__STATE_PARTITIONS": "2", "TMPDIR": str(self._temporary)}
        with (self._folder / "printed").open("wb") as printed:
            command = [sys.executable, "-m", "anabranch", *words]
            return subprocess.Popen(command, cwd=self._folder, env=env, stdout=printed, stderr=printed)

    def _feed(self, over: threading.Event) -> None:
        appender = self._system.appender("in")
        keys, values = [b"a", b"b"], [b'{"n": 1}', b'{"n": 2}']
        columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.nulls(2, RECORD_SCHEMA[2].type)]
        while not over.wait(EVERY):
            at = pa.array([time.time_ns() // 1000] * 2, pa.int64()).cast(RECORD_SCHEMA[3].type)
            appender.append(pa.record_batch([*columns, at], schema=RECORD_SCHEMA))
        appender.close()


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def measured(short: float, long: float) -> tuple[Look, Look, float, float]:
    """What was found after ``short`` and after ``long`` minutes, and how many seconds the first start and a restart
    took.
    """
    with tempfile.TemporaryDirectory(prefix="growth-", ignore_cleanup_errors=True) as folder:
        job = Running(Path(folder))
        with job.runs() as first:
            begun, looks = time.monotonic(), []
            for minutes in (short, long):
                time.sleep(max(0.0, begun + minutes * 60 - time.monotonic()))
                looks.append(job.look(minutes))
        with job.runs() as again:
            pass
        return looks[0], looks[1], first, again


def _row(what: str, before: float, after: float, between: float, unit: str = "") -> str:
    grown = after - before
    month = after + grown / between * (A_MONTH - between) if grown > 0 else after
    return f"{what:<24}{before:>14,.4g}{after:>14,.4g}{month:>18,.4g} {unit}"


def main() -> None:
    interruptible()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="the long time")
    parser.add_argument("--against", type=float, default=5.0, help="the short time")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    short, long, first, again = measured(given.against, given.minutes)
    if given.json:
        print(json.dumps({"short": vars(short), "long": vars(long), "start": first, "restart": again}))
        return
    between = long.minutes - short.minutes
    rate = (long.batches - short.batches) / between / 60
    print(f"{rate:.1f} batches a second in the lane that had most; start {first:.1f} s, restart {again:.1f} s")
    print(f"{'':<24}{f'{short.minutes:g} min':>14}{f'{long.minutes:g} min':>14}{'a month, if so':>18}")
    for kind in long.files:
        print(_row(f"{kind}, files", short.files[kind], long.files[kind], between))
        print(_row(f"{kind}, kB", short.bytes[kind] / 1000, long.bytes[kind] / 1000, between))
    print(_row("events", short.events, long.events, between))
    for verb in long.seconds:
        print(_row(f"{verb}, s", short.seconds[verb], long.seconds[verb], between))


if __name__ == "__main__":
    main()
