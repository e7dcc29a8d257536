"""Kafka Streams and Flink as sides of the Kafka benchmarks: programs in ``bench/peers`` that are compiled when needed.

They get the best settings that don't change what they promise: lz4, a linger of 20 ms, producer batches of 128 kB, as
many records per poll as in a batch of Spark's reader and, for Flink, object reuse and state on the heap.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from anabranch import cache_dir
from bench.support.cluster import ROOT
from bench.support.processes import Side
from bench.support.sides import AT_ONCE, LINGER_MS, MEMORY, PEERS, SLOW_SECONDS, Task, given_to

COMMIT_MS = 1000
"""Milliseconds between two checkpoints of Flink, and between two commits of Kafka Streams."""
_VERSIONS = {"streams": "4.1.0", "flink": "2.2.1"}
_OPEN = ("java.lang", "java.net", "java.io", "java.nio", "java.time", "java.util", "java.util.concurrent")


@dataclass(frozen=True)
class JavaPeer:
    """A side that is started with ``java``. ``program`` is its class; ``jars`` is the name of its jars for
    ``scripts/fetch-jars``.
    """

    program: str
    jars: str
    delivery: str = "at-least-once"
    flags: tuple[str, ...] = ()
    store: str = "memory"

    def __call__(self, task: Task, started: Side) -> None:
        given = {
            **given_to(task, started),
            "folder": started.folder / "state",
            "linger": 0 if task.quick else LINGER_MS,
            "commit": COMMIT_MS,
            "slow": round(SLOW_SECONDS * 1000),
            "at_once": AT_ONCE,
            "store": self.store,
            "mode": self.delivery,
        }
        folder = self.fetched()
        path = f"{self._compiled(task.cluster.folder / 'classes' / self.program, folder)}:{folder}/*"
        arguments = [f"{name}={value}" for name, value in given.items()]
        started.start(["java", f"-Xmx{MEMORY}", *self.flags, "-cp", path, self.program, *arguments])

    def fetched(self) -> Path:
        """The folder with the side's jars, which are fetched if they are missing."""
        folder = cache_dir.folder() / f"{self.jars}-{_VERSIONS[self.jars]}"
        if not folder.is_dir():
            subprocess.run([str(ROOT / "scripts" / "fetch-jars"), self.jars], stdout=subprocess.DEVNULL, check=True)
        return folder

    def _compiled(self, classes: Path, jars: Path) -> Path:
        if not classes.is_dir():
            source = PEERS / f"{self.program}.java"
            subprocess.run(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(source)], check=True)
        return classes


def kafka_streams(delivery: str = "at-least-once") -> JavaPeer:
    """Kafka Streams without a cache, so that it writes an update for each message, as Flink does."""
    return JavaPeer("KafkaStreamsPeer", "streams", delivery)


def flink(delivery: str = "at-least-once") -> JavaPeer:
    """Flink's DataStream API: one process with two slots."""
    opened = tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN)
    return JavaPeer("FlinkPeer", "flink", delivery, opened)
