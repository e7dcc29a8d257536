"""Queries of one registered source that start at once, in this process and a JVM of its own: ``at_once.py HOW_MANY``.

With a second word, sources are registered as Spark does it by itself. What comes of it is printed in one line.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from anabranch.config import Settings, SparkSettings
from anabranch.container import error_text
from anabranch.spark.session import session
from anabranch.systems.embedded import Log
from anabranch.systems.embedded import spark as embedded
from anabranch.systems.embedded.system import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.source import Limits, Reading
from tests.soak.unmended import unmend
from tests.support.interruption import interruptible


def main(several: int, unmended: bool) -> str:
    interruptible()
    if unmended:
        unmend()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="at-once-") as name:
        folder = Path(name)
        spark = session.start(Settings(spark=SparkSettings(master="local[2]", memory="1g")), output=folder / "log")
        system = EmbeddedSystem(folder / "streams")
        Log(folder / "streams").create("in", 1)
        appender = system.appender("in")
        row = {"value": b"x", "timestamp": datetime.now(UTC)}
        appender.append(pa.RecordBatch.from_pylist([row] * 5, schema=RECORD_SCHEMA))
        appender.close()
        reading = Reading("in", {0: 0}, {}, Limits(max_rows=10), bare=True)
        frames = [embedded.streamed(spark, system, reading) for _ in range(several)]
        bar, wrong, counted = threading.Barrier(several), [], []

        def run(number: int) -> None:
            writer = frames[number].writeStream.foreachBatch(lambda batch, _: counted.append(batch.count()))
            writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{number}")).trigger(
                availableNow=True
            )
            bar.wait()
            try:
                writer.start().awaitTermination()
            except Exception as error:
                wrong.append(error_text.failure(error).what)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(several)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session.stop(spark)
    if wrong:
        return f"failed: {len(wrong)} of {several}: {' | '.join(sorted(set(wrong)))[:400]}"
    return "right" if sum(counted) == 5 * several else f"failed: {sum(counted)} rows of {5 * several}"


if __name__ == "__main__":
    print(main(int(sys.argv[1]), len(sys.argv) > 2))
