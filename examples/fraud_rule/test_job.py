import json
from pathlib import Path

from anabranch.testing import KILL, run

HERE = Path(__file__).parent


def test_two_countries():
    payments = [json.loads(line) for line in (HERE / "payments.jsonl").read_text().splitlines()]
    for place in (2, 3):
        payments.insert(place + 1, KILL)  # state survives the death of the process
    suspicions = run(HERE / "job.py", {"payments": payments}, partitions=1)["suspicions"]
    assert [(row["card"], row["countries"], row["at"][11:16]) for row in suspicions] == [
        ("1111", ["BR", "NO"], "09:07")
    ]
