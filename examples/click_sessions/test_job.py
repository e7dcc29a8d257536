import json
from pathlib import Path

from anabranch.testing import run

HERE = Path(__file__).parent


def test_sessions():
    clicks = [json.loads(line) for line in (HERE / "clicks.jsonl").read_text().splitlines()]
    sessions = run(HERE / "job.py", {"clicks": clicks}, partitions=1)["sessions"]
    found = {(row["visitor"], row["window_start"][11:16]): row for row in sessions}
    assert found.keys() == {("ann", "09:00"), ("ann", "10:30"), ("bob", "09:02")}  # eve's is still open
    first = found["ann", "09:00"]
    assert (first["pages"], first["entry"], first["exit"], first["bought"]) == (3, "/", "/thanks", True)
    assert first["window_end"][11:16] == "10:05"  # 30 minutes after the last page
    assert found["bob", "09:02"]["bought"] is False
