"""Measures how long Python functions work on each bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import Accumulator, AccumulatorParam, SparkContext

from anabranch.model.lane import Lane
from anabranch.model.ssp import WHOLE
from anabranch.spark.functions.buckets import Bucket

__all__ = ["Busy", "Slowest", "heard", "listening", "slowest"]

Busy = dict[Bucket, float]
"""The seconds that functions worked on each bucket. The time for which a function waited is included."""


class _Adding(AccumulatorParam[Busy]):
    def zero(self, value: Busy) -> Busy:
        return {}

    def addInPlace(self, value1: Busy, value2: Busy) -> Busy:
        return {each: value1.get(each, 0.0) + value2.get(each, 0.0) for each in {**value1, **value2}}


def listening(context: SparkContext) -> Accumulator[Busy]:
    """An accumulator for the seconds that functions work on each bucket. Each Spark task adds its seconds when it
    succeeds. If a Spark task succeeds several times, its seconds are added each time."""
    said: Accumulator[Busy] = context.accumulator({}, _Adding())
    return said


def heard(said: Accumulator[Busy]) -> Busy:
    """The seconds, by bucket, that Spark tasks have added since the last call."""
    found, said.value = said.value, {}
    return found


@dataclass(frozen=True)
class Slowest:
    """The bucket on which functions spent the most time. ``ssp`` is the bucket's name, and ``seconds`` is the time
    spent on the bucket. ``skew`` is ``seconds`` divided by the average over all buckets on which functions have worked.
    """

    ssp: str
    seconds: float
    skew: float


def slowest(lane: Lane, busy: Mapping[Bucket, float]) -> Slowest | None:
    """The slowest bucket of a lane; None if no function has worked on anything."""
    total = sum(busy.values())
    if not total:
        return None
    (task, bucket), seconds = max(busy.items(), key=lambda each: each[1])
    whole = next((ssp for ssp, number in lane.numbers.items() if number == task), f"task {task}")
    name = whole if bucket == WHOLE else f"{whole}#{bucket}"
    return Slowest(name, seconds, seconds * len(busy) / total)
