"""A job file that holds what can't be copied to another process: locks, a client, a logger, a cache, an open file."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import helper
import pyarrow as pa
from parts.deep import deep

from anabranch import Job, Processor, ValueState

print("the job file is imported")

LOCK = threading.Lock()
LOG = logging.getLogger(__name__)
CLIENT = sqlite3.connect(":memory:", check_same_thread=False)
PATTERN = re.compile("^a")
FILE = Path(__file__).open()  # noqa: SIM115
CACHE: dict[int, str] = {}

Message = dict[str, Any]

job = Job("held")
rows = job.read("rows", key="k string", schema="n int, how string")


def plain(message: Message) -> Message:
    with LOCK:
        CLIENT.execute("select 1")
        LOG.debug("one more")
        CACHE[message["n"]] = FILE.name
    return {**message, "how": "plain" if PATTERN.match("a") else ""}


def closing_over(lock: threading.Lock, name: str) -> Callable[[Message], Message]:
    def inner(message: Message) -> Message:
        with lock:
            return {**message, "how": name}

    return inner


async def waiting(message: Message) -> Message:
    await asyncio.sleep(0)
    with LOCK:
        return {**message, "how": "async"}


class Enricher:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, message: Message) -> Message:
        with self.lock:
            return {**message, "how": "instance"}

    def method(self, message: Message) -> Message:
        with self.lock:
            return {**message, "how": "method"}

    @staticmethod
    def static(message: Message) -> Message:
        return {**message, "how": "static" if LOCK else ""}

    @classmethod
    def of_class(cls, message: Message) -> Message:
        return {**message, "how": "class" if LOCK else ""}


def locked(function: Callable[[Message], Message]) -> Callable[[Message], Message]:
    lock = threading.Lock()

    @functools.wraps(function)
    def wrapper(message: Message) -> Message:
        with lock:
            return function(message)

    return wrapper


@locked
def decorated(message: Message) -> Message:
    return {**message, "how": "decorated"}


@functools.lru_cache
def cached(text: str) -> str:
    return text.split(maxsplit=1)[0]


def given(lock: threading.Lock, message: Message) -> Message:
    with lock:
        return {**message, "how": "partial"}


class Seen(Processor):
    seen = ValueState("long")

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def on_message(self, message: Message, timers: Any) -> Iterable[Message]:
        with self.lock, LOCK:
            self.seen.set((self.seen.get() or 0) + 1)
            yield {"k": message["k"], "n": message["n"], "how": "process"}


def by_spark(df: Any) -> Any:
    from pyspark.sql import functions as F

    named = F.udf(lambda n: helper.counted({"n": n, "how": "udf"})["how"], "string")
    return df.withColumn("how", named("n"))


def by_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    with LOCK:
        names = pa.array(["arrow"] * batch.num_rows)
        return batch.set_column(batch.schema.get_field_index("how"), "how", names)


enricher = Enricher()
FUNCTIONS: dict[str, Callable[[Message], Any]] = {
    "plain": plain,
    "closure": closing_over(threading.Lock(), "closure"),
    "async": waiting,
    "instance": enricher,
    "method": enricher.method,
    "static": Enricher.static,
    "class": Enricher.of_class,
    "decorated": decorated,
    "partial": functools.partial(given, threading.Lock()),
    "lambda": lambda message: {**message, "how": "lambda" if LOCK else ""},
    "cached": lambda message: {**message, "how": cached("cached twice")},
    "helper": helper.counted,
    "deep": deep,
}
for name, function in FUNCTIONS.items():
    rows.map(function, name=name).write("out")
rows.flat_map(lambda message: [{**message, "how": "flat" if LOCK else ""}]).write("out")
rows.map_arrow(by_arrow).write("out")
rows.transform(by_spark).write("out")
rows.process(Seen(), name="seen").write("out")

COUNTED: list[int] = []
COUNTING = threading.Lock()


def each(df: Any, lane: str, batch: int, epoch: int) -> None:
    with COUNTING:
        COUNTED.append(df.count())


rows.foreach_batch(each)

if __name__ == "__main__":
    raise SystemExit("nobody runs this file")
