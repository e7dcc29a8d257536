"""How each side of the Kafka benchmarks is started. All sides do the same work, from one topic to another."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.support.cluster import PARTITIONS, ROOT, Cluster
from bench.support.flights import LATE, SCHEMA
from bench.support.processes import Side

PEERS = ROOT / "bench" / "peers"
MEMORY = "2g"
STATE_PARTITIONS = 4
SLOW_SECONDS = 0.002
AT_ONCE = 64
"""How many messages a slow function may process at once, in sides that support this."""
LINGER_MS = 20
_BY_TIME = "target_batch_seconds"

JOBS = {
    "filter": f"""
job.read("flights").where("from_json(value, 'dep_delay int').dep_delay >= {LATE}").write("out")
""",
    "rewrite": f"""
job.read("flights", schema="{SCHEMA}").where("dep_delay >= {LATE}").write("out")
""",
    "count": """
flights = job.read("flights", key="tailnum string", schema="dep_delay int")
flights.agg(flights="count(*)", total="sum(dep_delay)").write("out")
""",
    "windows": """
from anabranch import tumbling

timed = {"key": "tailnum string", "read_as": {"at": "epoch-seconds"}, "event_time": "at", "watermark": "5 seconds"}
flights = job.read("flights", schema="at timestamp", **timed)
flights.window(tumbling("10 seconds")).agg(flights="count(*)", emit="on_close").write("out")
""",
    "join": """
timed = {"key": "tailnum string", "read_as": {"at": "epoch-seconds"}, "event_time": "at", "watermark": "5 seconds"}
departures = job.read("flights", schema="flight int, dep_delay int, at timestamp", **timed)
landings = job.read("landings", schema="arr_delay int, at timestamp", **timed)
pairs = departures.join(landings, within="10 seconds", prefix="landed_")
pairs.select("tailnum", "flight", "dep_delay", "landed_arr_delay as arr_delay").write("out")
""",
    "table": """
flights = job.read("flights", key="tailnum string", schema="flight int, dest string")
flights.join_table("TABLE", on="dest").select("tailnum", "flight", "dest", "name").write("out")
""",
    "function": """
from anabranch import Processor, ValueState


class Counting(Processor):
    sums = ValueState("flights long, total long")

    def on_message(self, message, timers):
        sums = self.sums.get({"flights": 0, "total": 0})
        sums = {"flights": sums["flights"] + 1, "total": sums["total"] + message["dep_delay"]}
        self.sums.set(sums)
        yield {"tailnum": message["tailnum"], **sums}


flights = job.read("flights", key="tailnum string", schema="dep_delay int")
flights.process(Counting(), schema="tailnum string, flights long, total long").write("out")
""",
    "slow": f"""
import time


def slow(message):
    time.sleep({SLOW_SECONDS})
    return message


job.read("flights").map(slow).write("out")
""",
}
FORMATS = {"filter": "string", "slow": "string"}
"""The formats of workloads that use a format other than JSON."""
BY_BATCH = ("count", "windows", "join", "function", "slow")
"""Workloads whose batches all have an equal share of the input. The reasons: the output of ``count`` depends on its
batches; a handwritten query with state gets such batches; and the other workloads have so few records that their
batches would not reach their final size.
"""


class UnsupportedError(Exception):
    """This version of anabranch doesn't support the side. The message says why."""


@dataclass(frozen=True)
class Task:
    """What a side should do.

    Attributes:
        batch: the most records of a micro-batch; 0 for no limit.
        quick: whether latency matters more than the rate.
        other: the second topic of a join, or a topic with the table to join.
        table: the same table as a CSV file.
        even: whether all batches of anabranch have the size ``batch``, whatever the workload.
    """

    cluster: Cluster
    work: str
    input: str
    output: str
    batch: int = 0
    quick: bool = False
    other: str = ""
    table: str = ""
    even: bool = False


def by_hand(task: Task, started: Side) -> None:
    """Structured Streaming with Spark's defaults. So a query without state reads everything in one batch."""
    given = {
        **given_to(task, started),
        "jars": ",".join(map(str, task.cluster.connector)),
        "batch": task.batch if task.work in BY_BATCH else 0,
        "schema": SCHEMA,
        "state": STATE_PARTITIONS,
    }
    started.start(
        [sys.executable, str(PEERS / "structured_streaming.py"), json.dumps(given)],
        {"PYSPARK_PYTHON": sys.executable},
    )


@dataclass(frozen=True)
class Anabranch:
    """``anabranch run``, as a user would type it.

    With the real-time trigger, the producer doesn't delay records to send several at once, because users of this
    trigger want low latency. Only for a task in which the rate matters more does it delay them, as in Kafka Streams.

    Attributes:
        checkout: a checkout of another commit, whose code runs; None for the code of this commit.
    """

    delivery: str = "at-least-once"
    trigger: str = "micro-batch"
    checkout: Path | None = None

    def __call__(self, task: Task, started: Side) -> None:
        file = started.folder / "job.py"
        file.write_text(
            f"from anabranch import Job\n\njob = Job({task.output!r})\n{JOBS[task.work].replace('TABLE', task.table)}"
        )
        (started.folder / "anabranch.toml").write_text(self._settings(task))
        if self.trigger != "micro-batch":
            self._check(file)
        environment = {} if self.checkout is None else {"PYTHONPATH": str(self.checkout / "src")}
        started.start([anabranch(), "run", str(file)], environment)

    @property
    def _sizes_by_time(self) -> bool:
        """Whether this version of anabranch sizes batches by time by default."""
        if self.checkout is None:
            return True
        return any(_BY_TIME in file.read_text() for file in (self.checkout / "src").glob("anabranch/config/*.py"))

    def _settings(self, task: Task) -> str:
        batch = f"max_rows_per_batch = {task.batch}\n" if task.batch else ""
        if task.batch and (task.even or task.work in BY_BATCH) and self._sizes_by_time:
            batch += f"{_BY_TIME} = 0\n"
        real_time = self.trigger != "micro-batch"
        trigger = f'trigger = "{self.trigger}"\n' if real_time else ""
        linger = f'spark = {{ "linger.ms" = "{LINGER_MS}" }}\n' if real_time and not task.quick else ""
        factor = f"factor = {AT_ONCE // PARTITIONS}\n" if task.work == "slow" else ""
        form = FORMATS.get(task.work, "json")
        landings = f'[streams.landings]\ntopic = "{task.other}"\n' if task.work == "join" else ""
        return f"""\
[job]
on_error = "fail"
on_null_key = "fail"
expansion_check = "1 hour"
state_partitions = {STATE_PARTITIONS}
{batch}{trigger}{factor}
[systems]
default = "kafka"

[systems.kafka]
bootstrap_servers = "{task.cluster.bootstrap_servers}"
{linger}
[streams.flights]
topic = "{task.input}"
format = "{form}"
{landings}
[streams.out]
topic = "{task.output}"
format = "{form}"
delivery = "{self.delivery}"

[spark]
memory = "{MEMORY}"
"""

    def _check(self, file: Path) -> None:
        command = [anabranch(), "plan", str(file)]
        planned = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
        if planned.returncode != 0:
            raise UnsupportedError(planned.stderr.strip().splitlines()[0])


def given_to(task: Task, started: Side) -> dict[str, object]:
    """The arguments, by name, that the programs of all peers get."""
    return {
        "bootstrap": task.cluster.bootstrap_servers,
        "work": task.work,
        "input": task.input,
        "other": task.other,
        "table": task.table,
        "output": task.output,
        "folder": str(started.folder),
        "late": LATE,
    }


def anabranch() -> str:
    """The path of the command."""
    return str(Path(sys.executable).with_name("anabranch"))


def before(checkout: Path, mine: Mapping[str, Callable[[Task, Side], None]]) -> dict[str, Callable[[Task, Side], None]]:
    """The sides of ``mine`` that run anabranch, with the code of another commit."""
    return {
        f"{name}-before": replace(each, checkout=checkout.resolve())
        for name, each in mine.items()
        if isinstance(each, Anabranch)
    }
