"""``anabranch demo``, from its first line to the table of what was promised and measured."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.toured import Tour

pytestmark = pytest.mark.acceptance

PARTS = ["arrive live", "falls behind", "factor 16", "more partitions", "kill -9", "can't write", "drain", "Checked"]
PROMPT = "press Enter to run it"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[list[Tour]]:
    """Tours that are to be ended, whatever comes."""
    tours: list[Tour] = []
    yield tours
    for tour in tours:
        tour.close()


def check_promises(tour: Tour) -> None:
    """The tour has gone through all its parts, and what was measured is what was promised."""
    titles = re.findall(r"(?m)^\d\. (.*?) +\d+ s$", tour.text)
    assert all(part in title for part, title in zip(PARTS, titles, strict=True)), titles
    assert len(re.findall(r"│ right │", tour.text)) == 6
    assert "WRONG" not in tour.text
    assert "flights in; " in tour.text
    tour.check_nothing_is_left()


@pytest.mark.long
def test_all_that_is_promised_is_measured(tmp_path: Path, folder: list[Tour]) -> None:
    folder.append(tour := Tour(tmp_path))
    assert tour.wait(900) == 0, tour.text
    check_promises(tour)
    assert re.search(r"http://127\.0\.0\.1:\d+/ui/#/login\?token=\S+delays\n", tour.text)
    wide = [line for line in tour.text.splitlines() if len(line) > 80 and "/ui/#/" not in line]
    assert not wide


@pytest.mark.long
def test_on_a_kafka_broker_of_its_own(tmp_path: Path, folder: list[Tour]) -> None:
    folder.append(tour := Tour(tmp_path, "--kafka"))
    assert tour.wait(900) == 0, tour.text
    assert re.search(r"(?m)^the broker answers at \S+:\d+$", tour.text)
    check_promises(tour)


@pytest.mark.long
def test_step_by_step(tmp_path: Path, folder: list[Tour]) -> None:
    """Somebody reads for a while before pressing Enter. What is measured then doesn't include that time."""
    folder.append(tour := Tour(tmp_path, "--step", stdin=subprocess.PIPE))
    end, pressed = time.monotonic() + 900, 0
    while tour.popen.poll() is None:
        assert time.monotonic() < end, tour.text
        if tour.text.count(PROMPT) > pressed:
            assert tour.text.endswith(f"{PROMPT} "), "a command ran before Enter was pressed"
            command = re.findall(r"(?m)^   \$ (.*)", tour.text)[-1]
            signal.sigtimedwait([], 10 if command.startswith("anabranch scale") else 1)
            pressed += 1
            tour.press_enter()
        signal.sigtimedwait([], 0.1)
    assert tour.popen.returncode == 0, tour.text
    assert pressed == len(re.findall(r"(?m)^   \$ ", tour.text)) > 10
    check_promises(tour)


def test_ctrl_c_at_a_prompt_leaves_nothing(tmp_path: Path, folder: list[Tour]) -> None:
    folder.append(tour := Tour(tmp_path, "--step", stdin=subprocess.PIPE))
    for pressed in range(3):
        while tour.text.count(PROMPT) == pressed:
            assert tour.popen.poll() is None, tour.text
            signal.sigtimedwait([], 0.1)
        if pressed < 2:
            tour.press_enter()
    tour.popen.send_signal(signal.SIGINT)
    assert tour.wait(60) == 130
    assert tour.text.endswith("\ndemo: stopped; all its processes have ended\n")
    tour.check_nothing_is_left()


@pytest.mark.long
def test_ctrl_c_leaves_nothing(tmp_path: Path, folder: list[Tour]) -> None:
    """At a time when much runs; random times: the soak's scenario ``tour``."""
    folder.append(tour := Tour(tmp_path))
    while "$ anabranch container delays &" not in tour.text:
        assert tour.popen.poll() is None, tour.text
        signal.sigtimedwait([], 0.1)
    assert len(tour.processes()) >= 3
    tour.popen.send_signal(signal.SIGINT)
    assert tour.wait(60) == 130
    assert tour.text.endswith("\ndemo: stopped; all its processes have ended\n")
    tour.check_nothing_is_left()
