"""A lane whose output stream is gone fails, rather than trying to write to it for minutes."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anabranch.config import Settings
from anabranch.container.checkpoint.output_ends import Outputs
from anabranch.errors import StateError, UnreachableError
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import lane


@pytest.fixture
def system(tmp_path: Path) -> EmbeddedSystem:
    found = EmbeddedSystem(tmp_path)
    found.create("late", 2)
    return found


def outputs(system: Any, *tables: str) -> Outputs:
    mine = msgspec.structs.replace(lane("0-a"), outputs={"late": 2, **dict.fromkeys(tables, 1)})

    class Its(Systems):
        def named(self, name: str) -> Any:
            return system

        def is_table(self, output: str) -> bool:
            return output in tables

    return Outputs(Its(Settings()), mine)


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
    def away() -> dict[str, int]:
        raise UnreachableError("it is away", "wait")

    its = outputs(SimpleNamespace(counts=away))
    its.check()
    its.check()


def test_one_that_the_system_doesnt_list_but_knows_is_there(system: EmbeddedSystem) -> None:
    """As in Kafka, which lists only the topics that a user has rights to."""
    system.counts = dict  # type: ignore[method-assign]
    its = outputs(system)
    its.check()
    its.check()
