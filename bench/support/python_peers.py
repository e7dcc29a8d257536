"""Python stream processors as sides of the Kafka benchmarks, each in a virtual environment of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import venv
from dataclasses import dataclass

from anabranch import cache_dir
from bench.support.java_peers import COMMIT_MS, flink
from bench.support.processes import Side
from bench.support.sides import LINGER_MS, PEERS, SLOW_SECONDS, Task, given_to

QUIX, BYTEWAX, PYFLINK = "3.28.1", "0.21.1", "2.2.1"
_OF_CONNECTOR = ("flink-connector-kafka", "flink-connector-base", "kafka-clients", "jackson", "lz4", "snappy", "zstd")


@dataclass(frozen=True)
class Quix:
    """Quix Streams in two processes, because one process uses only one core. A slow function runs in one process per
    partition.
    """

    delivery: str = "at-least-once"

    def __call__(self, task: Task, started: Side) -> None:
        python = environment(f"quixstreams-{QUIX}", f"quixstreams=={QUIX}")
        for number in range(4 if task.work == "slow" else 2):
            folder = str(started.folder / f"state-{number}")
            started.start([python, str(PEERS / "quix.py"), _given(task, started, self.delivery, folder=folder)])


def bytewax(task: Task, started: Side) -> None:
    """Bytewax in two processes, at least once, with a snapshot every second."""
    python = environment(f"bytewax-{BYTEWAX}", f"bytewax=={BYTEWAX}", "confluent-kafka", "orjson")
    recovery = started.folder / "recovery"
    recovery.mkdir(parents=True)
    subprocess.run([python, "-m", "bytewax.recovery", str(recovery), "2"], stdout=subprocess.DEVNULL, check=True)
    addresses = ";".join(f"localhost:{_free_port()}" for _ in range(2))
    for number in range(2):
        command = [python, "-m", "bytewax.run", f"{PEERS / 'bytewax_flow.py'}:flow()"]
        cluster = ["-i", str(number), "-a", addresses, "-r", str(recovery), "-s", str(COMMIT_MS // 1000), "-b", "0"]
        started.start([*command, *cluster], {"GIVEN": _given(task, started, "at-least-once")})


@dataclass(frozen=True)
class PyFlink:
    """PyFlink: a local Flink with two slots, each of which has a Python process."""

    delivery: str = "at-least-once"

    def __call__(self, task: Task, started: Side) -> None:
        python = environment(f"pyflink-{PYFLINK}", f"apache-flink=={PYFLINK}", "orjson")
        jars = [str(jar) for jar in flink(self.delivery).fetched().glob("*.jar") if jar.name.startswith(_OF_CONNECTOR)]
        started.start([python, str(PEERS / "pyflink_counts.py"), _given(task, started, self.delivery, jars=jars)])


def environment(name: str, *requirements: str) -> str:
    """The Python interpreter of a virtual environment with these packages. The environment is in the cache, and is made
    if it isn't there.
    """
    home = cache_dir.folder() / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"Installing {' '.join(requirements)} into {home} ...", file=sys.stderr, flush=True)
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True)
        (home / "ready").touch()
    return str(python)


def _given(task: Task, started: Side, delivery: str, **more: object) -> str:
    its = {"group": task.output, "mode": delivery, "commit": COMMIT_MS, "linger": LINGER_MS, "seconds": SLOW_SECONDS}
    return json.dumps({**given_to(task, started), **its, **more})


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return int(listening.getsockname()[1])
