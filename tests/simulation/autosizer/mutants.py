"""Each leaves out, or does wrong, one thing that the autosizer goes by: which checks may show it, and with which loads
they soon do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from anabranch.coordinator.sizing import autosizing, lane_load, needed_factor
from anabranch.coordinator.sizing.lane_load import LaneLoad
from anabranch.coordinator.sizing.scalability import Scalability

__all__ = ["MUTANTS", "Mutant"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    """``breaks``: the checks of which one must show it; ``kinds``: the loads with which it is tried, from the seed
    ``first`` on."""

    apply: Callable[[Patch], None]
    breaks: frozenset[str]
    kinds: tuple[str, ...]
    first: int = 0


def _pause_costs_nothing(patch: Patch) -> None:
    catch_up = lane_load.catch_up
    patch.setattr(lane_load, "catch_up", lambda load, factor, pause, *seen: catch_up(load, factor, 0.0, *seen))


def _falls_at_the_first_look(patch: Patch) -> None:
    looked = autosizing.looked

    def hasty(*args: Any) -> Any:
        look, after = looked(*args)
        falling = replace(after.falling, since=-1e9) if after.falling.looks else after.falling
        return look, replace(after, falling=falling, falls_to=look.needs[0].factor) if look.needs else after

    patch.setattr(autosizing, "looked", hasty)
    decide = autosizing.decide

    def ripe(limits: Any, status: Any, since: float, *rest: Any) -> Any:
        look, after, now = rest[1:]
        ready = 1e9 if look.needs and look.most.factor < look.factor else since
        return decide(limits, status, ready, rest[0], replace(look, span=30.0), after, now)

    patch.setattr(autosizing, "decide", ripe)


def _loads(change: Callable[[LaneLoad], LaneLoad]) -> Callable[[Patch], None]:
    """What a lane has to do is taken for something else."""

    def apply(patch: Patch) -> None:
        load_of = lane_load.load_of
        patch.setattr(lane_load, "load_of", lambda *args: change(load_of(*args)))

    return apply


def _nothing_is_learned(patch: Patch) -> None:
    patch.setattr(Scalability, "exponent", lambda self, factor: 1.0)


def _old_figures_count(patch: Patch) -> None:
    patch.setattr(autosizing, "_unclear", lambda *args: "")


def _four_times_at_most(patch: Patch) -> None:
    decide = autosizing.decide

    def timid(limits: Any, status: Any, *rest: Any) -> Any:
        verdict = decide(limits, status, *rest)
        most = 4 * status.factor
        return verdict if verdict.factor is None else replace(verdict, factor=min(verdict.factor, most))

    patch.setattr(autosizing, "decide", timid)


def _one_look_will_do(patch: Patch) -> None:
    for name, value in (("_LOOKS", 1), ("_SURE", 0.0), ("_SURE_OF_WORK", 0.0), ("_SPAN_OF_WORK", 0.0)):
        patch.setattr(autosizing, name, value)


def _changes_follow_at_once(patch: Patch) -> None:
    patch.setattr(autosizing, "_SPACING", 0.0)
    patch.setattr(autosizing, "_PAUSES", 0)


def _the_cooldown_holds_everything(patch: Patch) -> None:
    decide = autosizing.decide

    def patient(limits: Any, status: Any, since: float, *rest: Any) -> Any:
        verdict = decide(limits, status, since, *rest)
        return replace(verdict, factor=None) if since < 30 else verdict

    patch.setattr(autosizing, "decide", patient)


def _falls_to_the_brim(patch: Patch) -> None:
    def greedy(load: LaneLoad, seen: Any, aim: Any) -> int:
        smaller = [each for each in aim.factors if each < load.factor and load.working * load.factor / each <= 1.0]
        return load.factor if load.behind else min(smaller, default=load.factor)

    patch.setattr(needed_factor, "_smaller", greedy)


def _never_falls(patch: Patch) -> None:
    patch.setattr(needed_factor, "_smaller", lambda load, *rest: load.factor)


def _any_rise_is_worth_it(patch: Patch) -> None:
    patch.setattr(needed_factor, "_GAIN", math.inf)
    patch.setattr(needed_factor, "_NEARLY", 1.0)


def _no_maximum(patch: Patch) -> None:
    aim = autosizing._aim
    patch.setattr(autosizing, "_aim", lambda limits, *rest: aim(limits.model_copy(update={"max": 1024}), *rest))


def _frozen_lanes_count(patch: Patch) -> None:
    patch.setattr(autosizing, "_quiet", lambda *args: "")


def _slots_have_no_end(patch: Patch) -> None:
    patch.setattr(Scalability, "crowding", 1.0)
    patch.setattr(autosizing, "_REGRETS", -1e9)  # what a fall has shown would hide it


MUTANTS = {
    "slots have no end": Mutant(_slots_have_no_end, frozenset({"wavers", "falls"}), ("few slots",)),
    "frozen lanes count": Mutant(_frozen_lanes_count, frozenset({"stale"}), ("silent",), 100),
    "falls while more and more arrives": Mutant(
        _loads(lambda load: replace(load, growth=1.0)), frozenset({"wavers", "overload"}), ("silent",), 100
    ),
    "pause costs nothing": Mutant(_pause_costs_nothing, frozenset({"pays"}), ("costly",)),
    "falls at the first look": Mutant(
        _falls_at_the_first_look, frozenset({"wavers", "falls"}), ("flapping", "odd figures", "burst")
    ),
    "no backlog is seen": Mutant(
        _loads(lambda load: replace(load, backlog=0, behind=False)), frozenset({"start", "waits"}), ("backlog", "step")
    ),
    "the backlog has another sign": Mutant(
        _loads(lambda load: replace(load, backlog=-load.backlog)), frozenset({"start", "waits"}), ("backlog", "step")
    ),
    "nothing arrives": Mutant(
        _loads(lambda load: replace(load, arriving=0.0)), frozenset({"overload"}), ("slower", "step")
    ),
    "all is the work of functions": Mutant(
        _loads(lambda load: replace(load, hot=load.hot + load.rest, rest=0.0)), frozenset({"in vain"}), ("jvm",)
    ),
    "threads have no end": Mutant(
        _loads(lambda load: replace(load, threads=1024)), frozenset({"in vain"}), ("threads",)
    ),
    "nothing is learned": Mutant(_nothing_is_learned, frozenset({"in vain"}), ("cores",)),
    "old figures count": Mutant(_old_figures_count, frozenset({"stale"}), ("silent",)),
    "four times at most": Mutant(_four_times_at_most, frozenset({"start"}), ("backlog",)),
    "one look will do": Mutant(_one_look_will_do, frozenset({"wavers", "in vain", "falls"}), ("odd figures",)),
    "changes follow at once": Mutant(_changes_follow_at_once, frozenset({"in vain", "wavers"}), ("cores", "hot key")),
    "the cooldown holds everything": Mutant(_the_cooldown_holds_everything, frozenset({"start"}), ("backlog",)),
    "falls to the brim": Mutant(_falls_to_the_brim, frozenset({"wavers", "falls"}), ("fall", "steady", "wave")),
    "never falls": Mutant(_never_falls, frozenset({"idle"}), ("fall", "backlog")),
    "any rise is worth it": Mutant(_any_rise_is_worth_it, frozenset({"in vain", "pays"}), ("jvm", "costly")),
    "no maximum": Mutant(_no_maximum, frozenset({"range"}), ("backlog",)),
}
