"""``anabranch demo``, from its first line to the table of what was promised and measured."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.toured import Tour

pytestmark = pytest.mark.acceptance

PARTS = ["arrive live", "falls behind", "factor 16", "more partitions", "kill -9", "can't write", "drain", "Checked"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[list[Tour]]:
    """Tours that are to be ended, whatever comes."""
    tours: list[Tour] = []
    yield tours
    for tour in tours:
        tour.close()


def test_all_that_is_promised_is_measured(tmp_path: Path, folder: list[Tour]) -> None:
    folder.append(tour := Tour(tmp_path))
    assert tour.wait(900) == 0, tour.text
    titles = re.findall(r"(?m)^\d\. (.*?) +\d+ s$", tour.text)
    assert all(part in title for part, title in zip(PARTS, titles, strict=True)), titles
    assert len(re.findall(r"│ right │", tour.text)) == 6
    assert "WRONG" not in tour.text
    assert re.search(r"http://127\.0\.0\.1:\d+/ui/#/login\?token=\S+delays\n", tour.text)
    assert "flights in; " in tour.text
    wide = [line for line in tour.text.splitlines() if len(line) > 80 and "/ui/#/" not in line]
    assert not wide
    tour.check_nothing_is_left()


def test_ctrl_c_leaves_nothing(tmp_path: Path, folder: list[Tour]) -> None:
    """At a time when much runs; random times: the soak's scenario ``tour``."""
    folder.append(tour := Tour(tmp_path))
    while "$ anabranch container delays &" not in tour.text:
        assert tour.popen.poll() is None, tour.text
        signal.sigtimedwait([], 0.1)
    assert len(tour.processes()) >= 3
    tour.popen.send_signal(signal.SIGINT)
    assert tour.wait(60) == 130
    assert tour.text.endswith("\ndemo: stopped; nothing of it is left running\n")
    tour.check_nothing_is_left()
