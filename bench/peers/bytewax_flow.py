"""A running count and sum for each key in Bytewax, a Python library: a data flow for ``python -m bytewax.run``.

The environment variable ``GIVEN`` is a JSON object with bootstrap, input, output and linger (ms).
"""

from __future__ import annotations

import json
import os
from typing import Any

import orjson
from bytewax import operators as op  # type: ignore[import-not-found]
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource, operators  # type: ignore[import-not-found]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]


def flow() -> Any:
    given = json.loads(os.environ["GIVEN"])
    made = Dataflow("counts")
    source = KafkaSource(
        [given["bootstrap"]], [given["input"]], add_config={"isolation.level": "read_committed"}, batch_size=1000
    )
    messages = op.input("read", made, source)
    keyed = op.map("key", messages, lambda message: (message.key.decode(), message.value))
    sums = op.stateful_map("sums", keyed, counted)
    written = op.map("write", sums, message_of)
    producing = {"compression.type": "lz4", "linger.ms": str(given["linger"]), "batch.size": "131072"}
    operators.output("out", written, brokers=[given["bootstrap"]], topic=given["output"], add_config=producing)
    return made


def counted(before: tuple[int, int] | None, value: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    flights, total = before or (0, 0)
    after = (flights + 1, total + orjson.loads(value)["dep_delay"])
    return after, after


def message_of(each: tuple[str, tuple[int, int]]) -> Any:
    key, (flights, total) = each
    return KafkaSinkMessage(key.encode(), orjson.dumps({"flights": flights, "total": total}))
