"""What is said about the folder of a lane that stopped: problems continue a sentence that begins with the path."""

from __future__ import annotations

from anabranch.config import Settings
from anabranch.container.checkpoint import review
from anabranch.container.checkpoint.review import LaneFiles
from anabranch.container.checkpoint.soundness import Checkpoint
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import FIRST, lane

FOLDER = "/lanes/delays/flights/1"


def said(files: Checkpoint | None, published: int) -> str:
    """The path and the problem, as ``check`` prints them."""
    found = LaneFiles(lane(FIRST), FOLDER, files)
    ((problem,), resumed) = review.of_lane(found, Systems(Settings(), "delays"), lambda _: published)
    assert resumed is None
    assert problem.part == f"lane {FIRST}"
    return f"{problem.path} {problem.problem}"


def test_a_folder_that_is_not_there_is_missing() -> None:
    assert said(None, published=3) == f"{FOLDER} is missing: it is the folder of the lane"


def test_a_folder_that_was_set_back_is_an_older_copy() -> None:
    there = Checkpoint({}, lambda name: b"")
    expected = f"{FOLDER} has no batch after -1, but the outputs hold batch 3: it is an older copy of the folder"
    assert said(there, published=3) == expected
