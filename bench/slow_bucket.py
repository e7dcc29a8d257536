"""How much a single slow bucket slows down the other buckets, with one lane in the container and with several.

A job has one function, which sleeps for 2 ms on each record, but for 200 ms on a record in bucket 0 of partition 0. The
input is a backlog in the embedded log, so only the function limits the rate. Once each partition has output, the
command counts the other partitions' output records for ``--seconds``, and then asks ``anabranch sizing`` which
bucket is the slowest. Sides run in alternating order, each with a new job.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.support.interruption import interruptible

from anabranch.model.hashing import bucket, partition_for
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA
from bench.support import sides
from bench.support.processes import Side, explained, side

PARTITIONS, FACTOR = 8, 4
SLOW = (0, 0)
"""The slow bucket: its partition, and its number."""
BATCH = 1_600
QUICK_MS, TIMES = 2, 100
KEYS = 4096
BACKLOG = 400_000
STARTED_WITHIN = 180.0
JOB = f"""\
import time

from anabranch import Job


def work(message):
    time.sleep({QUICK_MS / 1000} * ({TIMES} if message["slow"] else 1))
    return message


job = Job("slow-bucket")
job.read("in", schema="slow boolean").map(work).write("out")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", default="1,4", help="the sides")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are told")
    parser.add_argument("--seconds", type=float, default=60, help="that a side is watched")
    arguments = parser.parse_args()
    numbers = [int(text) for text in arguments.lanes.split(",")]
    interruptible()
    found: dict[int, list[float]] = {lanes: [] for lanes in numbers}
    slowest = f"embedded/in/{SLOW[0]}#{SLOW[1]}"
    named = True
    with explained():
        for number in range(1, arguments.rounds + 1):
            for lanes in numbers if number % 2 else reversed(numbers):
                rate, told = _measured(lanes, arguments.seconds)
                found[lanes].append(rate)
                named = named and told == slowest
                print(
                    f"round {number}, lanes {lanes}: {rate:,.0f} records/s of the other partitions; {told}", flush=True
                )
    print("\n| lanes | records/s of the other partitions | to the first |")
    print("| ---: | ---: | ---: |")
    first = statistics.median(found[numbers[0]])
    for lanes, rates in found.items():
        rate = statistics.median(rates)
        print(f"| {lanes} | {rate:,.0f} | {rate / first:.2f} |")
    print(f"sizing names {slowest}: {'each time' if named else 'NOT each time'}")


def _measured(lanes: int, seconds: float) -> tuple[float, str]:
    """The records per second of all partitions except that of the slow bucket, and the bucket that ``sizing`` names as
    the slowest.
    """
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder, side(Path(folder) / "side") as started:
        system = EmbeddedSystem(started.folder / "streams")
        _fill(system)
        (started.folder / "job.py").write_text(JOB)
        (started.folder / "anabranch.toml").write_text(
            f"[job]\nfactor = {FACTOR}\nlanes = {lanes}\nmax_rows_per_batch = {BATCH}\n"
            "target_batch_seconds = 0\n\n"
            '[systems.embedded]\nroot = "streams"\n\n[storage]\nroot = "lanes"\n'
        )
        started.start([sides.anabranch(), "run", "job.py"])
        _until_all_have_begun(started, system)
        before, begun = _others(system), time.monotonic()
        while time.monotonic() < begun + seconds:
            started.check()
            time.sleep(0.2)
        rate = (_others(system) - before) / (time.monotonic() - begun)
        return rate, _slowest(started)


def _fill(system: EmbeddedSystem) -> None:
    """Write a backlog that lasts longer than the measurement."""
    system.create("in", PARTITIONS)
    keys = [b"key-%d" % number for number in range(KEYS)]
    slow = [(partition_for(key, PARTITIONS), bucket(key, 0, FACTOR)) == SLOW for key in keys]
    values = [json.dumps({"slow": each}).encode() for each in slow]
    drawn = np.random.default_rng(1).integers(KEYS, size=BACKLOG)
    columns = {
        "key": pa.array(keys).take(pa.array(drawn)),
        "value": pa.array(values).take(pa.array(drawn)),
        "headers": pa.nulls(BACKLOG, RECORD_SCHEMA.field("headers").type),
        "timestamp": pa.repeat(pa.scalar(datetime.now(UTC), RECORD_SCHEMA.field("timestamp").type), BACKLOG),
    }
    with system.appender("in") as appender:
        appender.append(pa.RecordBatch.from_pydict(columns, RECORD_SCHEMA))


def _until_all_have_begun(started: Side, system: EmbeddedSystem) -> None:
    end = time.monotonic() + STARTED_WITHIN
    while "out" not in system.streams() or not all(system.ends("out").values()):
        started.check()
        if time.monotonic() > end:
            raise SystemExit(f"nothing came of some partition in {STARTED_WITHIN:.0f} s:\n{started.said()}")
        time.sleep(0.2)


def _others(system: EmbeddedSystem) -> int:
    """The number of records in the output, without the slow bucket's partition."""
    return sum(end for partition, end in system.ends("out").items() if partition != SLOW[0])


def _slowest(started: Side) -> str:
    """The bucket with the longest time according to ``sizing``, once ``sizing`` has figures of a batch of each lane."""
    command = [sides.anabranch(), "sizing", "slow-bucket", "--json"]
    end = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < end:
        done = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        lanes: list[dict[str, Any]] = json.loads(done.stdout)["lanes"]
        if all(lane.get("slowest") for lane in lanes):
            return str(max(lanes, key=lambda lane: lane["slowestSeconds"])["slowest"])
        time.sleep(1)
    raise SystemExit(f"sizing doesn't name the slowest bucket of each lane: {done.stdout}")


if __name__ == "__main__":
    main()
