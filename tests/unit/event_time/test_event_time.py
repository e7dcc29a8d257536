"""The watermark after a batch, who holds it back, and how a lane's progress and clock are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from structlog.testing import capture_logs

from anabranch.config import Settings
from anabranch.errors import AnabranchError
from anabranch.event_time import progress
from anabranch.event_time.progress import Progress, Upstream
from anabranch.spark.query import clock
from anabranch.spark.query.clock import Clock, EventTimeSource
from anabranch.systems.systems import Systems
from tests.unit.event_time.ssps import A, B, C

UPSTREAM = Upstream(3, {"l": 40, "m": 60})

AFTER: list[tuple[str, Progress, dict[str, int | None], dict[str, int], dict[str, Upstream], int | None]] = [
    ("nothing is read", Progress(), {}, {}, {}, None),
    ("nothing has come", Progress(), {A: 10}, {}, {}, None),
    ("the delay is taken off", Progress(), {A: 10}, {A: 100}, {}, 90),
    ("one of two has come", Progress(), {A: 10, B: 10}, {A: 100}, {}, None),
    ("the slowest counts", Progress(maxima={A: 100}), {A: 10, B: 10}, {B: 50}, {}, 40),
    ("each with its own delay", Progress(maxima={A: 100, B: 80}), {A: 70, B: 10}, {}, {}, 30),
    ("an earlier maximum stays", Progress(maxima={A: 100}), {A: 10}, {A: 60}, {}, 90),
    ("never backwards", Progress(95, {A: 100}), {A: 10}, {A: 101}, {}, 95),
    ("nor for one that is new", Progress(90, {A: 100}), {A: 10, B: 10}, {}, {}, 90),
    ("what was another's doesn't count", Progress(maxima={A: 5, B: 100}), {B: 10}, {}, {}, 90),
    ("a stream between", Progress(), {C: None}, {}, {C: UPSTREAM}, 40),
    ("that was heard before", Progress(upstream={C: UPSTREAM}), {C: None}, {}, {}, 40),
    ("that was heard again", Progress(upstream={C: UPSTREAM}), {C: None}, {}, {C: Upstream(5, {"l": 50})}, 50),
    ("that isn't known", Progress(), {A: 10, C: None}, {A: 100}, {}, None),
    ("one of whose lanes isn't", Progress(), {C: None}, {}, {C: Upstream(3, {"l": 40, "m": None})}, None),
    ("between and not", Progress(), {A: 10, C: None}, {A: 30}, {C: UPSTREAM}, 20),
]


@pytest.mark.parametrize(
    ("before", "delays", "maxima", "upstream", "expected"),
    [each[1:] for each in AFTER],
    ids=[each[0] for each in AFTER],
)
def test_the_watermark_after_a_batch(
    before: Progress,
    delays: dict[str, int | None],
    maxima: dict[str, int],
    upstream: dict[str, Upstream],
    expected: int | None,
) -> None:
    now = progress.after(before, delays, maxima, upstream)
    assert now.watermark == expected
    assert now.maxima == {**before.maxima, **{s: max(at, before.maxima.get(s, at)) for s, at in maxima.items()}}
    assert now.upstream == {**before.upstream, **upstream}
    assert progress.after(now, delays, maxima, upstream) == now


@pytest.mark.parametrize(
    ("now", "delays", "expected"),
    [
        (Progress(), {}, None),
        (Progress(maxima={A: 100, B: 50}), {A: 10, B: 10}, B),
        (Progress(maxima={A: 100, B: 50}), {A: 70, B: 10}, A),
        (Progress(maxima={A: 100}), {A: 10, B: 10}, B),
        (Progress(), {B: 10, A: 10, C: None}, A),
        (Progress(maxima={A: 100}, upstream={C: UPSTREAM}), {A: 10, C: None}, C),
        (Progress(maxima={A: 20}, upstream={C: UPSTREAM}), {A: 10, C: None}, A),
        (Progress(maxima={A: 50}, upstream={C: UPSTREAM}), {C: None, A: 10}, A),
        (Progress(maxima={A: -100, B: -50}), {A: 10, B: 10}, A),
        (Progress(maxima={A: 10, B: -50}), {A: 10, B: 10}, B),
    ],
)
def test_who_holds_the_watermark_back(now: Progress, delays: dict[str, int | None], expected: str | None) -> None:
    assert progress.held_by(now, delays) == expected
    assert Clock(now, delays, {}).held_by == expected


def test_each_ssp_has_a_watermark_of_its_own_once_it_is_known() -> None:
    now = Progress(maxima={A: 100, B: -50}, upstream={C: UPSTREAM})
    delays = {A: 10, B: 10, C: None, "s/d/0": 5}
    assert Clock(now, delays, {}).times == {A: 90, B: -60, C: UPSTREAM.watermark}


TIMES = st.integers(-(10**6), 10**15)
UPSTREAMS = st.builds(
    Upstream,
    st.integers(-1, 10**6),
    st.dictionaries(st.sampled_from("lmns"), st.none() | TIMES),
    st.dictionaries(st.sampled_from("ghij"), st.frozensets(st.sampled_from("lmns"))),
)
PROGRESSES = st.builds(
    Progress,
    st.none() | TIMES,
    st.dictionaries(st.sampled_from([A, B]), TIMES),
    st.dictionaries(st.sampled_from([C, "embedded/i/1"]), UPSTREAMS),
)


@given(PROGRESSES)
def test_progress_is_read_as_it_was_written(now: Progress) -> None:
    written = now.to_builtins()
    assert progress.from_builtins(json.loads(json.dumps(written))) == now
    assert written["source"] == "event-time"
    assert "stream" not in written, "it would be taken for the offset of a stream"


@given(PROGRESSES)
def test_equal_progress_is_written_the_same(now: Progress) -> None:
    """Spark compares offsets as text: another order would be another batch."""
    upstream = {s: Upstream(e.cursor, dict(reversed(e.heard.items())), e.gone) for s, e in now.upstream.items()}
    turned = Progress(now.watermark, dict(reversed(now.maxima.items())), dict(reversed(upstream.items())))
    assert json.dumps(turned.to_builtins()) == json.dumps(now.to_builtins())


def test_a_clock_is_read_as_it_was_set(tmp_path: Path) -> None:
    file = tmp_path / "lane.clock"
    assert clock.read(file) is None
    for watermark in (5, 6):
        held = Clock(Progress(watermark, {A: 15}, {C: UPSTREAM}), {A: 10, C: None}, {A: 3, C: 4})
        held.write(file)
        assert clock.read(file) == held
    assert list(tmp_path.iterdir()) == [file]


def test_the_clock_of_a_lane_that_hears_nobody_has_little_to_import(tmp_path: Path) -> None:
    """It is a process of its own, and the lane's first batch waits for it."""
    Clock(Progress(5, {A: 15}), {A: 10}, {A: 3}).write(tmp_path / "lane.clock")
    options = {"file": f"{tmp_path}/lane.clock", "systems": clock.carried(Systems(Settings())), "rows": ""}
    code = (
        "import sys\n"
        "from anabranch.spark.query.clock import EventTimeSource\n"
        f"print(EventTimeSource({options}).streamReader(None).latestOffset({{}}, None)['watermark'])\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "5\nFalse\n"


def test_why_event_time_stands_still_is_told_once_until_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(Progress(5), {}, {}).write(tmp_path / "0-aaaaaaaa.clock")
    options = {"file": f"{tmp_path}/0-aaaaaaaa.clock", "systems": clock.carried(Systems(Settings())), "rows": "true"}
    reader = EventTimeSource(options).streamReader(StructType())
    refusals = [True, True, False, True]

    def heard(read: Clock, *_: object) -> Progress:
        if refusals.pop(0):
            raise AnabranchError("the cluster refuses the login", "check the password")
        return read.progress

    monkeypatch.setattr(Clock, "heard", heard)
    with capture_logs() as lines:
        while refusals:
            assert reader.latestOffset({}, None)["watermark"] == 5
    assert [(line["event"], line["lane"]) for line in lines] == [("control records can't be read", "0-aaaaaaaa")] * 2
    assert "check the password" in lines[0]["error"]
