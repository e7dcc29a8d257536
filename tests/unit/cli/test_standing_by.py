"""What a container says of its throw-away job while it stands by, and that it waits for its end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from anabranch.cli import warming
from anabranch.cli.warm_up import WarmUp
from anabranch.errors import JobFailedError
from anabranch.spark.session import cluster
from tests.unit.coordinator.helpers import wait_for


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "is_under", lambda spark: spark == "cluster")


def test_it_says_when_it_is_warm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done = threading.Event()
    monkeypatch.setattr(warming, "warm", lambda spark, leaving: done.set())
    with WarmUp("session") as begun:
        begun.begin()
        wait_for(lambda: begun.is_done)
    assert done.is_set()
    assert capsys.readouterr().err == "a warm-up job has run for 0 s: warm\n"


def test_it_says_why_it_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(spark: Any, leaving: threading.Event) -> None:
        raise JobFailedError("the disk is full")

    monkeypatch.setattr(warming, "warm", fail)
    with WarmUp("session") as begun:
        begun.begin()
        wait_for(lambda: begun.is_done)
    assert capsys.readouterr().err == (
        "warning: the warm-up job failed, so the first batches will take longer: the disk is full\n"
    )


def test_it_is_over_with_the_seat_and_at_the_end_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = []

    def warm(spark: Any, leaving: threading.Event) -> None:
        assert leaving.wait(10)
        ended.append(spark)
        raise JobFailedError("the session has ended")

    monkeypatch.setattr(warming, "warm", warm)
    with WarmUp("taken") as begun:
        begun.begin()
    wait_for(lambda: begun.is_done)
    with WarmUp("told to end") as begun:
        begun.begin()
        begun.end()
        assert ended == ["taken", "told to end"]
    assert capsys.readouterr().err == ""


def test_it_does_nothing_on_a_cluster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(warming, "warm", lambda spark, leaving: 1 / 0)
    with WarmUp("cluster") as begun:
        begun.begin()
        wait_for(lambda: begun.is_done)
    assert capsys.readouterr().err == ""
