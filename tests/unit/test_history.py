"""What a running query says of its batches."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from anabranch.spark import history


def test_a_batch_took_what_its_parts_took_and_not_the_time_in_which_its_query_was_held() -> None:
    told = {
        "batchId": 4,
        "durationMs": {"addBatch": 300, "walCommit": 20, "latestOffset": 5, "triggerExecution": 60_000},
        "sources": [{"numInputRows": 7, "endOffset": {"in": {"0": 7}}}],
        "stateOperators": [{"numRowsDroppedByWatermark": 1, "numRowsTotal": 2}],
    }
    progress = SimpleNamespace(json=lambda: json.dumps(told))
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: [progress]))
    (ran,) = history.since(query, 3)
    assert ran == history.Ran(number=4, rows=7, seconds=0.325, late_groups=1, state_rows=2)
    assert history.since(query, 4) == []
