"""What a running query says of its batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.spark.internals import java, query_progress
from anabranch.spark.query import history
from tests.support import surfaces

spark: Any = None


@pytest.mark.parametrize("missing", ["", "it has no recentProgress"])
def test_a_batch_took_what_its_parts_took_and_not_the_time_in_which_its_query_was_held(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    told = {
        "batchId": 4,
        "timestamp": "2026-01-02T00:00:00.500Z",
        "durationMs": {"addBatch": 300, "walCommit": 20, "latestOffset": 5, "triggerExecution": 60_000},
        "sources": [{"numInputRows": 7, "endOffset": {"in": {"0": 7}}}],
        "stateOperators": [
            {
                "numRowsDroppedByWatermark": 1,
                "numRowsTotal": 2,
                "numRowsUpdated": 3,
                "numRowsRemoved": 1,
                "customMetrics": {
                    "rocksdbSstFileSize": 4096,
                    "rocksdbReplayChangeLogLatencyMs": 2500,
                    "SnapshotLastUploaded.partition_0_default": 30,
                    "SnapshotLastUploaded.partition_1_default": 20,
                },
            }
        ],
    }
    reported, at = json.dumps(told), told["timestamp"]
    behind = SimpleNamespace(json=lambda: reported, timestamp=lambda: at)
    query: Any = SimpleNamespace(
        recentProgress=[SimpleNamespace(json=reported)], lastProgress=SimpleNamespace(timestamp=at)
    )
    query_of_java = SimpleNamespace(recentProgress=lambda: [behind], lastProgress=lambda: behind)
    monkeypatch.setattr(java, "query", lambda _: query_of_java)
    surfaces.pretend(monkeypatch, query_progress.SURFACE, missing)
    assert history.newest(spark, query) == at
    (ran,) = history.since(spark, query, 3)
    ended = datetime(2026, 1, 2, tzinfo=UTC).timestamp() + 60.5
    assert ran == history.CompletedBatch(
        4,
        rows=7,
        seconds=0.325,
        late_groups=1,
        state_rows=2,
        ended=ended,
        state_bytes=4096,
        state_changes=4,
        replay_seconds=2.5,
        snapshot=20,
    )
    assert history.since(spark, query, 4) == []
