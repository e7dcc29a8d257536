import json
from pathlib import Path

from anabranch.testing import KILL, Message, run

HERE = Path(__file__).parent


def test_history():
    changes = [json.loads(line) for line in (HERE / "customers.jsonl").read_text().splitlines()]
    changes.insert(2, KILL)
    history = run(HERE / "job.py", {"customers": changes}, partitions=1)["customer-history"]
    assert [(row["id"], row["lsn"], row["deleted"], row.get("name"), row.get("city")) for row in history] == [
        (1, 100, False, "Ann", "Oslo"),
        (2, 120, False, "Bob", "Bern"),
        (1, 140, False, "Ann", "Rome"),
        (2, 160, False, "Bob", "Genoa"),
        (2, 180, True, None, None),
    ]


def test_a_record_of_debezium():
    value = (
        b'{"before":null,"after":{"id":1,"name":"Ann","city":"Oslo"},"source":{"connector":"postgresql","ts_ms":1,'
        b'"snapshot":"false","sequence":"[null,\\"100\\"]","table":"customers","txId":9,"lsn":100,"xmin":null},'
        b'"transaction":null,"op":"c","ts_ms":1772355600000}'
    )
    (row,) = run(HERE / "job.py", {"customers": [Message(value, key=b'{"id":1}')]})["customer-history"]
    assert (row["id"], row["lsn"], row["deleted"], row["name"]) == (1, 100, False, "Ann")
