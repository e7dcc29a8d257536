import json
from pathlib import Path

from anabranch.testing import KILL, run

HERE = Path(__file__).parent


def test_history():
    changes = [json.loads(line) for line in (HERE / "customers.jsonl").read_text().splitlines()]
    changes.insert(2, KILL)
    history = run(HERE / "job.py", {"customers": changes}, partitions=1)["customer-history"]
    assert [(row["id"], row["deleted"], row["name"], row["city"]) for row in history] == [
        (1, False, "Ann", "Oslo"),
        (2, False, "Bob", "Bern"),
        (1, False, "Ann", "Rome"),
        (2, True, "Bob", "Bern"),
    ]
