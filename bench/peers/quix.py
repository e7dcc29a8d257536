"""The workloads in Quix Streams, a Python library for Kafka: one process of a consumer group.

Arguments: a JSON object with bootstrap, work, input, output, folder, group, late, mode (at-least-once or exactly-once),
commit and linger (ms), and the seconds that a slow function takes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import orjson
from quixstreams import Application, State  # type: ignore[import-not-found]


def main(given: dict[str, Any]) -> None:
    late, seconds = given["late"], given["seconds"]
    application = Application(
        broker_address=given["bootstrap"],
        consumer_group=given["group"],
        auto_offset_reset="earliest",
        state_dir=given["folder"],
        commit_interval=given["commit"] / 1000,
        processing_guarantee=given["mode"],
        consumer_extra_config={"isolation.level": "read_committed"},
        producer_extra_config={"compression.type": "lz4", "linger.ms": given["linger"], "batch.size": 131_072},
        loglevel="WARNING",
    )
    source = application.topic(given["input"], key_deserializer="bytes", value_deserializer="bytes")
    target = application.topic(given["output"], key_serializer="bytes", value_serializer="bytes")
    rows = application.dataframe(source)
    if given["work"] in ("count", "function"):
        rows = rows.apply(orjson.loads).apply(counted, stateful=True).apply(orjson.dumps)
    elif given["work"] == "rewrite":
        rows = rows.apply(orjson.loads).filter(lambda flight: flight["dep_delay"] >= late).apply(orjson.dumps)
    elif given["work"] == "slow":
        rows = rows.update(lambda _: time.sleep(seconds))
    else:
        rows = rows.filter(lambda value: orjson.loads(value)["dep_delay"] >= late)
    rows.to_topic(target)
    application.run()


def counted(flight: dict[str, Any], state: State) -> dict[str, int]:
    flights, total = state.get("counts", (0, 0))
    new = (flights + 1, total + flight["dep_delay"])
    state.set("counts", new)
    return {"flights": new[0], "total": new[1]}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
