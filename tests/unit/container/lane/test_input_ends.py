"""The ends of a lane's inputs as they were looked up last."""

from __future__ import annotations

from anabranch.container.lane.input_ends import InputEnds
from anabranch.errors import AnabranchError
from anabranch.model.ssp import SSP

IN = SSP(system="embedded", stream="in", partition=0)


class World:
    def __init__(self) -> None:
        self.time = 100.0
        self.end: int | None = 7
        self.looked = 0

    def look(self) -> dict[SSP, int]:
        self.looked += 1
        if self.end is None:
            raise AnabranchError("it is away", "wait")
        return {IN: self.end}


def ends(world: World, until: dict[SSP, int] | None = None) -> InputEnds:
    return InputEnds("0-a", world.look, lambda: until, lambda: world.time)


def test_they_are_looked_up_twice_a_second_or_when_they_must_be_fresh() -> None:
    world = World()
    its = ends(world)
    assert its.now() == {"embedded/in/0": 7}
    world.end, world.time = 8, world.time + 0.4
    assert (its.now(), world.looked) == ({"embedded/in/0": 7}, 1)
    assert (its.now(fresh=True), world.looked) == ({"embedded/in/0": 8}, 2)
    world.end, world.time = 9, world.time + 0.5
    assert (its.now(), world.looked) == ({"embedded/in/0": 9}, 3)


def test_the_last_ones_stand_while_they_are_not_told() -> None:
    world = World()
    its = ends(world)
    assert (its.sure, its.now(), its.sure) == (False, {"embedded/in/0": 7}, True)
    world.end = None
    assert (its.now(fresh=True), its.sure) == ({"embedded/in/0": 7}, False)
    world.end = 9
    assert (its.now(), its.sure) == ({"embedded/in/0": 7}, False)  # it isn't asked again at once
    assert (its.now(fresh=True), its.sure) == ({"embedded/in/0": 9}, True)


def test_none_is_beyond_where_it_stops() -> None:
    world = World()
    its = ends(world, {IN: 5})
    assert its.now() == {"embedded/in/0": 5}
    world.end = 3
    assert its.now(fresh=True) == {"embedded/in/0": 3}
