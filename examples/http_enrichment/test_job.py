import json
import runpy
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from anabranch.testing import run

HERE = Path(__file__).parent


def test_enrichment():
    orders = [json.loads(line) for line in (HERE / "orders.jsonl").read_text().splitlines()]
    service = ThreadingHTTPServer(("127.0.0.1", 8099), runpy.run_path(str(HERE / "service.py"))["Customers"])
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        enriched = run(HERE / "job.py", {"orders": orders})["enriched-orders"]
    finally:
        service.shutdown()
        service.server_close()
    assert {row["order"]: row.get("country") for row in enriched} == {1: "NO", 2: "CH", 3: None, 4: "NO"}
    assert [row["order"] for row in enriched if row["customer"] == "ann"] == [1, 4]  # in order, by key
