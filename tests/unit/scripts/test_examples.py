"""The examples and their copies in the docs, without Spark: records that come out of order, or have odd characters."""

from __future__ import annotations

import asyncio
import re
import runpy
import textwrap
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from anabranch import Job, Processor, Timers, ValueState
from anabranch.api.journal import Journal
from anabranch.api.timers import EVENT_TIME, moment
from tests.support.paths import ROOT
from tests.unit.api.stored import Kept, Store

PAGES = sorted((ROOT / "docs/how-to/examples").glob("*.md"))
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
AT = datetime(2013, 1, 1, 10, tzinfo=UTC)


def code(text: str) -> dict[str, Any]:
    """What the first Python code of a text defines."""
    found = CODE.search(text)
    assert found is not None
    names: dict[str, Any] = {"Job": Job, "Processor": Processor, "ValueState": ValueState, "timedelta": timedelta}
    exec(textwrap.dedent(found.group(1)), names)
    return names


class Plane:
    """A processor of one plane's flights, each a turn of its own."""

    def __init__(self, processor: Any) -> None:
        self.processor, journal = processor, Journal()
        self.states = [state.bound(Store(), journal) for state in processor.states().values()]
        for name, state in zip(processor.states(), self.states, strict=True):
            setattr(processor, name, state)
        self.registered = Kept()
        self.timers = Timers(self.registered, EVENT_TIME, journal)

    def turn(self, call: Callable[[], Any]) -> list[Any]:
        for state in self.states:
            state.begin()
        self.timers.begin(0)
        rows = list(call() or ())
        for state in self.states:
            state.flush()
        self.timers.flush()
        return rows

    def flies(self, minutes: int) -> None:
        message = {"tailnum": "N1", "at": AT + timedelta(minutes=minutes)}
        assert not self.turn(lambda: self.processor.on_message(message, self.timers))

    def silences(self, watermark: int) -> list[int]:
        """The minutes since which the plane was silent, when the watermark has come to this minute."""
        rows = []
        for due in sorted(ms for ms in self.registered.at if moment(ms) < AT + timedelta(minutes=watermark)):
            self.registered.delete(due)
            rows += self.turn(lambda due=due: self.processor.on_timer({"tailnum": "N1"}, moment(due), self.timers))
        return [int((row["silent_since"] - AT) / timedelta(minutes=1)) for row in rows]


@pytest.mark.parametrize(
    "names",
    [
        lambda: runpy.run_path(str(ROOT / "examples/silences.py")),
        lambda: code((ROOT / "docs/reference/state-and-timers.md").read_text(encoding="utf-8")),
        lambda: code(str(Processor.__doc__)),
    ],
    ids=["example", "page", "docstring"],
)
def test_a_silence_begins_with_the_latest_flight_also_if_flights_come_out_of_order(
    names: Callable[[], dict[str, Any]],
) -> None:
    plane = Plane(names()["Silence"]())
    plane.flies(5)
    plane.flies(0)  # out of order
    assert plane.silences(62) == []
    assert plane.silences(64) == []
    plane.flies(64)  # just in time
    plane.flies(64)  # twice
    assert plane.silences(120) == []
    assert plane.silences(130) == [64]
    plane.flies(60)  # later than its silence was written
    assert plane.silences(200) == []


@pytest.mark.parametrize(
    ("customer", "country"), [("ann", "NO"), ("ann#2", None), ("ann?x=1", None), ("ann/", None), ("bob/../ann", None)]
)
def test_a_customer_is_asked_for_by_the_whole_name(
    customer: str, country: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ROOT / "examples/http_enrichment"
    service = ThreadingHTTPServer(("127.0.0.1", 0), runpy.run_path(str(folder / "service.py"))["Customers"])
    thread = threading.Thread(target=service.serve_forever)
    thread.start()
    monkeypatch.setenv("CUSTOMERS_URL", f"http://127.0.0.1:{service.server_port}/customers")
    try:
        job = runpy.run_path(str(folder / "job.py"))
        assert asyncio.run(job["with_country"]({"customer": customer})) == {"customer": customer, "country": country}
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


def test_of_changes_in_one_millisecond_the_last_in_the_log_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [  # as Delta may return them
        {"id": 2, "changed_at": AT, "lsn": 180, "deleted": True, "name": None, "city": None},
        {"id": 1, "changed_at": AT, "lsn": 140, "deleted": False, "name": "Ann", "city": "Rome"},
        {"id": 1, "changed_at": AT, "lsn": 100, "deleted": False, "name": "Ann", "city": "Oslo"},
        {"id": 2, "changed_at": AT, "lsn": 160, "deleted": False, "name": "Bob", "city": "Genoa"},
    ]
    deltalake.write_deltalake(str(tmp_path / "tables/customer-history"), pa.Table.from_pylist(changes))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/cdc_to_delta/latest.py"))
    assert capsys.readouterr().out == "1 Ann Rome\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_job_of_its_example(page: Path) -> None:
    job = ROOT / "examples" / page.stem.replace("-", "_") / "job.py"
    assert job.read_text(encoding="utf-8") in CODE.findall(page.read_text(encoding="utf-8"))
