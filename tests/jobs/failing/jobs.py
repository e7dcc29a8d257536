"""Jobs that fail, each in its own way: the text of a job file, and what a user must read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BROKEN_MAP", "FAILING", "GONE", "Failing", "on_java"]

_HEAD = """import os
from anabranch import Job

job = Job("failing")
rows = job.read("in", schema="n int, text string")
"""


@dataclass(frozen=True)
class Failing:
    """``body`` follows the read of ``rows``. ``reads``: patterns that the error must hold, in order; ``never``: those
    that it mustn't. ``settings``: as for ``Workspace.start``; ``place``: "broker", which ends after the first batch,
    "full disk" or the empty text; ``by_lane``: it is a lane that fails."""

    body: str
    reads: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: int = 1
    place: str = ""
    by_lane: bool = True
    never: tuple[str, ...] = ("An error occurred while calling", "Traceback", "\tat ")

    @property
    def job(self) -> str:
        return f"{_HEAD}{self.body}"


def on_java(*harms: str, again: bool = True) -> str:
    """A job that harms Spark's Java when its query is analyzed: in the first process so, in the second one so, ...;
    ``again``: in all later ones as in the last of them, else not."""
    steps = "".join(f"    {'el' * bool(n)}if number == {n}:\n        {harm}\n" for n, harm in enumerate(harms))
    return f"""
def harmful(frame):
    from anabranch.spark.internals import java as ways

    jvm, java = ways.jvm(frame.sparkSession), ways.session(frame.sparkSession)
    with open("harmed", "a+") as file:
        file.write(f"{{jvm.java.lang.ProcessHandle.current().pid()}}\\n")
        file.seek(0)
        several = list(dict.fromkeys(file))
    number = len(several) - 1
    number = min(number, {len(harms) - 1}) if {again} else number
{steps}    return frame

rows.transform(harmful).write("out")
"""


BROKEN_MAP = """source = java.sessionState().dataSourceManager().lookupDataSource("anabranch-embedded")
        size = jvm.java.lang.Class.forName("java.util.HashMap").getDeclaredField("size")
        size.setAccessible(True)
        size.setInt(source.dataSourceCls().envVars(), 99)"""
"""What two threads that put into one HashMap at once leave: every task that is sent with it fails."""

GONE = "os.kill(int(jvm.java.lang.ProcessHandle.current().pid()), 9)"

FAILING = {
    "user code": Failing(
        """
def price(row):
    return {"price": {"a": 1}[row["text"]]}

rows.map(price, schema="price int").write("out")
""",
        (r"map 'map' \(failing\.py:\d+\) raised KeyError: 'x'", r"at failing\.py:\d+ in price", "offset", "fix the"),
        settings={"job__on_error": "fail"},
    ),
    "user code in the driver": Failing(
        """
def ratio(frame):
    return frame.selectExpr("n").withColumn("m", {}["ratio"])

rows.transform(ratio).write("out")
""",
        (
            r"transform 'transform' \(failing\.py:\d+\) raised KeyError: 'ratio' at failing\.py:\d+ in ratio",
            "fix the function",
        ),
        code=2,
        by_lane=False,
    ),
    "foreach_batch": Failing(
        """
def save(frame, lane, batch, epoch):
    raise ConnectionError("the service is away")

rows.foreach_batch(save)
""",
        (r"foreach_batch '[\w-]+' \(failing\.py:\d+\) raised ConnectionError: the service is away", "in save"),
    ),
    "SQL: cast": Failing(
        'rows.select("cast(text as int) as k").write("out")\n',
        (r"select 'select' \(failing\.py:\d+\): \[CAST_INVALID_INPUT\] The value 'x'", "offsets 0 to", "try_cast"),
    ),
    "SQL: division": Failing(
        'rows.select("1 / (n - n) as k").write("out")\n',
        (r"select 'select' \(failing\.py:\d+\): \[DIVIDE_BY_ZERO\]", "offsets 0 to", "try_divide"),
    ),
    "schema": Failing(
        'rows.map(lambda row: {"n": "many"}, schema="n int").write("out")\n',
        (r"map 'map' \(failing\.py:\d+\)", "offset", "partition 0"),
        settings={"job__on_error": "fail"},
    ),
    "Java in a task": Failing(
        on_java(BROKEN_MAP), ("OptionalDataException", "has tried its task 4 times", "the Java process is broken")
    ),
    "driver killed": Failing(on_java(GONE), ("the Java process of Spark has ended", "memory"), by_lane=False),
    "disk full": Failing('rows.write("out")\n', ("No space left on device", "make room"), place="full disk"),
    "Kafka refused": Failing('rows.write("out")\n', ("Kafka", r"\[systems\.kafka\] bootstrap_servers"), place="broker"),
    "worker killed": Failing(
        """
def crash(row):
    os.kill(os.getpid(), 11)

rows.map(crash, schema="n int").write("out")
""",
        (r"map 'map' \(failing\.py:\d+\): the worker died on it 3 times", "killed by SIGSEGV", "fix the function"),
        settings={"job__on_error": "fail"},
    ),
    "import on a worker": Failing(
        """
import sys, types
FOUND = os.path.join(os.path.dirname(__file__), "found")
if not os.path.exists(FOUND):  # by the driver, which comes first; workers import this file too
    open(FOUND, "w").close()
    sys.modules["prices"] = types.ModuleType("prices")
    sys.modules["prices"].of = lambda row: 1
import prices
rows.map(lambda row: {"n": prices.of(row)}, schema="n int").write("out")
""",
        ("No module named 'prices'", "install it where Python workers run"),
    ),
    "pickling": Failing(
        """
import threading

from pyspark.sql import functions as F

def locked(lock):
    @F.udf("int")
    def seen(n):
        with lock:
            return n
    return seen

rows.transform(lambda frame: frame.withColumn("m", locked(threading.Lock())("n"))).write("out")
""",
        (
            r"transform 'transform' \(failing\.py:\d+\): Could not serialize object: ",
            r"pickle '_thread\.lock' object at failing\.py:\d+ in <lambda>",
            "make such an object inside the function",
        ),
        code=2,
        by_lane=False,
        never=("fix the function", "Traceback", "\tat "),
    ),
}
