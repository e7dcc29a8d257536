"""What a running query says of its batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from anabranch.spark import history


def test_a_batch_took_what_its_parts_took_and_not_the_time_in_which_its_query_was_held() -> None:
    told = {
        "batchId": 4,
        "timestamp": "2026-01-02T00:00:00.500Z",
        "durationMs": {"addBatch": 300, "walCommit": 20, "latestOffset": 5, "triggerExecution": 60_000},
        "sources": [{"numInputRows": 7, "endOffset": {"in": {"0": 7}}}],
        "stateOperators": [
            {"numRowsDroppedByWatermark": 1, "numRowsTotal": 2, "customMetrics": {"rocksdbSstFileSize": 4096}}
        ],
    }
    progress = SimpleNamespace(json=lambda: json.dumps(told))
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: [progress]))
    (ran,) = history.since(query, 3)
    ended = datetime(2026, 1, 2, tzinfo=UTC).timestamp() + 60.5
    assert ran == history.Ran(4, rows=7, seconds=0.325, late_groups=1, state_rows=2, ended=ended, state_bytes=4096)
    assert history.since(query, 4) == []
