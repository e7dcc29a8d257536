"""How each side of the Kafka benchmarks is started: the same work, from one topic into another."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch import cache_dir
from bench.support.cluster import ROOT, Cluster
from bench.support.flights import LATE, SCHEMA
from bench.support.processes import Side

PEERS = ROOT / "bench" / "peers"
MEMORY = "2g"
STATE_PARTITIONS = 4
LINGER_MS = 20
_BY_TIME = "target_batch_seconds"
STREAMS = "4.1.0"
QUIX = "3.28.1"

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

flights = job.read("flights", key="tailnum string", schema="at timestamp", event_time="at", watermark="5 seconds")
flights.window(tumbling("10 seconds")).agg(flights="count(*)", emit="on_close").write("out")
""",
}
FORMATS = {"filter": "string", "rewrite": "json", "count": "json", "windows": "json"}


class UnsupportedError(Exception):
    """This version of anabranch can't do it: why."""


@dataclass(frozen=True)
class Task:
    """What a side is given. ``batch``: the most records of a micro-batch, 0 for no limit; ``quick``: latency counts."""

    cluster: Cluster
    work: str
    input: str
    output: str
    batch: int = 0
    quick: bool = False


def by_hand(task: Task, started: Side) -> None:
    """Structured Streaming with Spark's defaults. Where there is no state, that is: all there is in one batch."""
    given = {
        **_given(task, started),
        "jars": ",".join(map(str, task.cluster.connector)),
        "batch": task.batch if task.work == "count" else 0,
        "schema": SCHEMA,
        "state": STATE_PARTITIONS,
    }
    started.start(
        [sys.executable, str(PEERS / "structured_streaming.py"), json.dumps(given)],
        {"PYSPARK_PYTHON": sys.executable},
    )


@dataclass(frozen=True)
class Anabranch:
    """``anabranch run``, as a user would type it. In real time records don't wait for others, as users want it there:
    where latency doesn't count, they do, as those of Kafka Streams. ``checkout``: of another commit, whose code runs;
    None: this one's."""

    delivery: str = "at-least-once"
    trigger: str = "micro-batch"
    checkout: Path | None = None

    def __call__(self, task: Task, started: Side) -> None:
        file = started.folder / "job.py"
        file.write_text(f"from anabranch import Job\n\njob = Job({task.output!r})\n{JOBS[task.work]}")
        (started.folder / "anabranch.toml").write_text(self._settings(task))
        if self.trigger != "micro-batch":
            self._check(file)
        environment = {} if self.checkout is None else {"PYTHONPATH": str(self.checkout / "src")}
        started.start([anabranch(), "run", str(file)], environment)

    @property
    def _sizes_by_time(self) -> bool:
        """Whether its batches are sized by time, unless it is told otherwise."""
        if self.checkout is None:
            return True
        return any(_BY_TIME in file.read_text() for file in (self.checkout / "src").glob("anabranch/config/*.py"))

    def _settings(self, task: Task) -> str:
        batch = f"max_rows_per_batch = {task.batch}\n" if task.batch else ""
        if task.batch and task.work == "count" and self._sizes_by_time:  # what it writes goes by its batches
            batch += f"{_BY_TIME} = 0\n"
        real_time = self.trigger != "micro-batch"
        trigger = f'trigger = "{self.trigger}"\n' if real_time else ""
        linger = f'spark = {{ "linger.ms" = "{LINGER_MS}" }}\n' if real_time and not task.quick else ""
        return f"""\
[job]
on_error = "fail"
on_null_key = "fail"
expansion_check = "1 hour"
state_partitions = {STATE_PARTITIONS}
{batch}{trigger}
[systems]
default = "kafka"

[systems.kafka]
bootstrap_servers = "{task.cluster.bootstrap_servers}"
{linger}
[streams.flights]
topic = "{task.input}"
format = "{FORMATS[task.work]}"

[streams.out]
topic = "{task.output}"
format = "{FORMATS[task.work]}"
delivery = "{self.delivery}"

[spark]
memory = "{MEMORY}"
"""

    def _check(self, file: Path) -> None:
        command = [anabranch(), "plan", str(file)]
        planned = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
        if planned.returncode != 0:
            raise UnsupportedError(planned.stderr.strip().splitlines()[0])


def kafka_streams(task: Task, started: Side) -> None:
    """Kafka Streams: two threads, at least once, no cache; for latency without its linger of 100 ms."""
    jars = cache_dir.folder() / f"streams-{STREAMS}"
    if not jars.is_dir():
        subprocess.run([str(ROOT / "scripts" / "fetch-jars"), "streams"], stdout=subprocess.DEVNULL, check=True)
    classes = task.cluster.folder / "classes"
    if not classes.is_dir():
        source = PEERS / "KafkaStreamsPeer.java"
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(source)], check=True)
    places = [task.cluster.bootstrap_servers, task.work, task.input, task.output, str(started.folder / "state")]
    command = ["java", f"-Xmx{MEMORY}", "-cp", f"{classes}:{jars}/*", "KafkaStreamsPeer"]
    started.start([*command, *places, str(LATE), "0" if task.quick else ""])


def quixstreams(task: Task, started: Side) -> None:
    """A Python library, in an environment of its own: two processes, for one has one core."""
    home = cache_dir.folder() / f"quixstreams-{QUIX}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"Installing quixstreams {QUIX} into {home} ...", file=sys.stderr, flush=True)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"quixstreams=={QUIX}"], check=True)
        (home / "ready").touch()
    for number in range(2):
        given = {**_given(task, started), "folder": str(started.folder / f"state-{number}"), "group": task.output}
        started.start([str(python), str(PEERS / "quix.py"), json.dumps(given)])


def _given(task: Task, started: Side) -> dict[str, object]:
    return {
        "bootstrap": task.cluster.bootstrap_servers,
        "work": task.work,
        "input": task.input,
        "output": task.output,
        "folder": str(started.folder),
        "late": LATE,
    }


def anabranch() -> str:
    """The command."""
    return str(Path(sys.executable).with_name("anabranch"))


def before(checkout: Path, mine: Mapping[str, Callable[[Task, Side], None]]) -> dict[str, Callable[[Task, Side], None]]:
    """Those of ``mine`` that run anabranch, with the code of another commit."""
    return {
        f"{name}-before": replace(each, checkout=checkout.resolve())
        for name, each in mine.items()
        if isinstance(each, Anabranch)
    }
