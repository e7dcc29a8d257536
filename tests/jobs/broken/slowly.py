"""A job whose function takes 5 ms a record until there is a file ``quick``, and which counts what comes of each key."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anabranch import Job, Processor, Timers, ValueState

job = Job("slowly")
QUICK = Path(__file__).parent / "quick"


def handled(message: dict[str, Any]) -> dict[str, Any]:
    if not QUICK.exists():
        time.sleep(0.005)
    if message["number"] % 97 == 96:
        raise ValueError("it is refused")
    return message


class Counted(Processor):
    count = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        self.count.set((self.count.get() or 0) + 1)
        yield {"who": message["who"], "count": self.count.get(), "number": message["number"]}


asked = job.read("asked", key="who string", schema="number int")
slowly = asked.map(handled, schema="who string, number int", name="slowly")
slowly.write("done")
slowly.process(Counted(), schema="who string, count long, number int", name="counted").write("counted")
