"""A running count and sum for each key in PyFlink: a Python function with state, in a local Flink with two slots.

Arguments: a JSON object with bootstrap, input, output, folder, mode (at-least-once or exactly-once), commit and linger
(ms), and jars: the files that the Kafka connector needs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from pyflink.common import Configuration, Row, Types  # type: ignore[import-not-found]
from pyflink.datastream import (  # type: ignore[import-not-found]
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import ValueStateDescriptor  # type: ignore[import-not-found]
from pyflink.table import StreamTableEnvironment  # type: ignore[import-not-found]

RECORD = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.STRING()])


class Counting(KeyedProcessFunction):  # type: ignore[misc]
    def open(self, context: RuntimeContext) -> None:
        self.sums = context.get_state(ValueStateDescriptor("sums", Types.TUPLE([Types.LONG(), Types.LONG()])))

    def process_element(self, value: Row, context: Any) -> Iterator[Row]:
        flights, total = self.sums.value() or (0, 0)
        after = (flights + 1, total + orjson.loads(value[1])["dep_delay"])
        self.sums.update(after)
        yield Row(k=value[0], v=f'{{"flights":{after[0]},"total":{after[1]}}}')


def main(given: dict[str, Any]) -> None:
    settings = Configuration()
    for name, value in {
        "pipeline.jars": ";".join(Path(jar).as_uri() for jar in given["jars"]),
        "pipeline.object-reuse": "true",
        "parallelism.default": "2",
        "state.backend.type": "hashmap",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (Path(given["folder"]) / "checkpoints").as_uri(),
        "execution.checkpointing.interval": f"{given['commit']} ms",
        "execution.checkpointing.mode": given["mode"].upper().replace("-", "_"),
        "restart-strategy.type": "none",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
    }.items():
        settings.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    tables = StreamTableEnvironment.create(environment)
    tables.execute_sql(_table("input", given, given["input"], {"scan.startup.mode": "earliest-offset"}))
    producing = {
        "sink.delivery-guarantee": given["mode"],
        "sink.transactional-id-prefix": given["output"],
        "properties.compression.type": "lz4",
        "properties.linger.ms": str(given["linger"]),
        "properties.batch.size": "131072",
        "properties.transaction.timeout.ms": "600000",
    }
    tables.execute_sql(_table("output", given, given["output"], producing))
    records = tables.to_data_stream(tables.from_path("input"))
    counted = records.key_by(lambda row: row[0], key_type=Types.STRING()).process(Counting(), output_type=RECORD)
    tables.from_data_stream(counted).execute_insert("output").wait()


def _table(name: str, given: dict[str, Any], topic: str, more: dict[str, str]) -> str:
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": given["bootstrap"],
        "properties.group.id": given["output"],
        "properties.isolation.level": "read_committed",
        "key.format": "raw",
        "key.fields": "k",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
        **more,
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"create table `{name}` (k string, v string) with ({listed})"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
