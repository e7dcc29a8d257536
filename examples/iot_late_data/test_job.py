import json
from pathlib import Path

from anabranch.testing import BATCH, run

HERE = Path(__file__).parent


def test_what_is_late_and_what_is_too_late():
    readings = [json.loads(line) for line in (HERE / "readings.jsonl").read_text().splitlines()]
    readings[6:6] = [BATCH, BATCH, BATCH]  # the reading of 12:00 closes the next reading's window
    result = run(HERE / "job.py", {"readings": readings}, partitions=1, on_error="dead-letter")
    found = {
        (row["sensor"], row["window_start"][11:16]): (row["readings"], row["mean"]) for row in result["temperatures"]
    }
    assert found["roof", "09:00"] == (2, 5.0)  # 09:14 arrived after 09:40, and still counts
    assert found["cellar", "09:00"] == (1, 12.0)
    assert found["cellar", "12:00"] == (1, 13.0)
    (late,) = result["readings-dead-letters"]
    assert late["at"] == "2026-03-01T09:05:00Z"  # it isn't lost: you can add it by hand, or read it again
