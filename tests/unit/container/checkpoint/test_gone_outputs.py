"""A lane whose output stream is gone fails, rather than trying to write to it for minutes."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anabranch.container.checkpoint.output_ends import Outputs
from anabranch.errors import StateError, UnreachableError
from anabranch.systems.embedded import EmbeddedSystem
from tests.unit.coordinator.helpers import lane


@pytest.fixture
def system(tmp_path: Path) -> EmbeddedSystem:
    found = EmbeddedSystem(tmp_path)
    found.create("late", 2)
    return found


def outputs(system: Any, *tables: str) -> Outputs:
    mine = msgspec.structs.replace(lane("0-a"), outputs={"late": 2, **dict.fromkeys(tables, 1)})
    systems: Any = SimpleNamespace(named=lambda _: system, is_table=lambda stream: stream in tables)
    return Outputs(systems, mine)


def test_one_that_is_gone_twice_is_told(system: EmbeddedSystem, tmp_path: Path) -> None:
    its = outputs(system, "a_table")
    its.check()
    shutil.rmtree(next(tmp_path.rglob("late")))
    its.check()  # it may just be made again
    with pytest.raises(StateError, match=r"the output stream 'late' of job 'delays' is gone from /.*\n  restore it"):
        its.check()


def test_one_that_is_there_again_is_not(system: EmbeddedSystem, tmp_path: Path) -> None:
    its = outputs(system)
    shutil.rmtree(next(tmp_path.rglob("late")))
    its.check()
    system.create("late", 2)
    its.check()
    shutil.rmtree(next(tmp_path.rglob("late")))
    its.check()


def test_a_system_that_is_away_says_nothing_of_it() -> None:
    def away() -> set[str]:
        raise UnreachableError("it is away", "wait")

    its = outputs(SimpleNamespace(streams=away))
    its.check()
    its.check()
