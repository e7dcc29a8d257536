"""A backlog behind a slow function: the job that works on it, its records, and a check of the output."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anabranch.systems.contract import System
from bench.support import records

PARTITIONS = 2
WORKS = {
    "map": 'read.map(slow).write("out")',
    "plain": 'read.map(slow).write("out")',
    "process": 'read.process(Slow(), schema="k string, n int").write("out")',
    "windows": 'read.map(slow).window(tumbling("10 seconds")).agg(seen="count(*)", emit="on_close").write("out")',
}
JOB = """\
import time

from anabranch import Job, Processor, ValueState, tumbling


from pathlib import Path

FIRST = Path({first!r})


def slow(message):
    if not FIRST.exists():
        FIRST.touch()
    time.sleep({wait})
    return message


class Slow(Processor):
    seen = ValueState("int")

    def on_message(self, message, timers):
        time.sleep({wait})
        self.seen.set(self.seen.get(0) + 1)
        yield {{"k": message["k"], "n": message["n"]}}


job = Job("{name}")
read = job.read("in", key="k string", schema="n int, at timestamp"{timed})
{work}
"""
TIMED = ', event_time="at", watermark="5 seconds"'
_AT = 1_700_000_000
"""The event times must be in the past: a record whose event time is far ahead becomes a dead letter."""


@dataclass(frozen=True)
class Backlog:
    """The records of a backlog, and how a job processes them."""

    work: str
    records: int
    wait: float
    containers: int
    target: float

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in order."""
        for number in range(self.records):
            value = {"n": number, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_AT + number // 1000))}
            yield records.key_of(number), json.dumps(value).encode()

    def job(self, name: str, first: Path) -> str:
        """The content of the job file. The function touches the file ``first`` when it gets its first record."""
        timed = TIMED if self.work == "windows" else ""
        return JOB.format(name=name, wait=self.wait / 1000, work=WORKS[self.work], timed=timed, first=str(first))

    def fill(self, system: System) -> None:
        system.create("in", PARTITIONS)
        system.create("out", PARTITIONS)
        records.append(system, "in", self.rows())

    def check(self, system: System) -> None:
        """Raises SystemExit if the output isn't the one that the input should produce."""
        found: dict[bytes | None, list[int]] = defaultdict(list)
        windowed = self.work == "windows"
        for key, row in records.read(system, "out"):
            found[row["k"].encode() if windowed else key].append(row["seen" if windowed else "n"])
        wanted: dict[bytes, list[int]] = defaultdict(list)
        for number, (key, _) in enumerate(self.rows()):
            wanted[key].append(number)
        twice = 0
        for key, numbers in wanted.items():
            its = found.pop(key, [])
            if self.work == "windows":
                wrong = sum(its) != len(numbers)
            else:
                once = [*dict.fromkeys(its)] if self.work == "plain" else its
                twice += len(its) - len(once)
                wrong = once != numbers
            if wrong:
                raise SystemExit(f"key {key!r}: {len(its)} came out of {len(numbers)}: {its[:20]} of {numbers[:20]}")
        if found:
            raise SystemExit(f"{len(found)} keys came out that nobody has put in, such as {[*found][:3]}")
        if twice:
            print(f"  {twice:,} records came out twice, as they may at least once", flush=True)
