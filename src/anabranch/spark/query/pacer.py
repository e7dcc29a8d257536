"""Determines the size of a lane's batches, so that batches take about the intended time. After each batch, the limits
are adapted to the time that the batch took.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.pace import sharing
from anabranch.pace.controller import BatchRun, BatchTarget, Pace
from anabranch.pace.sharing import SourceShare
from anabranch.spark.internals import read_limits
from anabranch.spark.internals.read_limits import ReadLimits
from anabranch.spark.query import clock

__all__ = ["Pacer", "name_of"]

_REMEMBERED = 16
"""The number of recent batches whose writing times are kept. A batch's writing time is needed until Spark reports the
batch's total time."""

_BESIDES = 4
_NO_TIME = 0.01


class Pacer:
    """The pacer of one lane. Thread-safe.

    Args:
        most: the maximum number of records from one input in a batch.
        inputs: the start offsets of each input's partitions, by the name of the input (from :func:`name_of`).
    """

    def __init__(
        self, spark: SparkSession, aim: BatchTarget, first: int, most: int, inputs: Mapping[str, Mapping[int, int]]
    ) -> None:
        self._spark = spark
        self._most = most
        self._inputs = inputs
        self._lock = threading.Lock()
        self._pace = Pace(aim, max(1, min(first, aim.most)))
        self._shares = self._even()
        self._written: dict[int, float] = {}
        self._besides: tuple[float, ...] = ()
        self._limits: ReadLimits | None = None
        self._at: dict[int, tuple[str, Mapping[int, int]]] = {}
        self._given: dict[int, int] = {}
        self._longest = math.inf

    @property
    def limit(self) -> int:
        """How many records a batch may have, from all inputs together. :meth:`shorten` doesn't change this number."""
        return self._pace.limit

    @property
    def is_known(self) -> bool:
        """Whether the limit is based on measured durations of batches."""
        return bool(self._pace.ran) and not math.isinf(self._pace.aim.target)

    @property
    def shares(self) -> dict[str, int]:
        """How many records each input may contribute to the next batch, by the input's name."""
        return dict(self._shares)

    def go_on(self, former: Pacer) -> None:
        """Continue with the measurements of a former query of the lane."""
        with self._lock:
            aim = replace(self._pace.aim, least=min(self._pace.aim.least, former._pace.aim.least))
            self._pace = replace(former._pace, aim=aim)
            self._besides = former._besides
            self._shares = self._even()

    def failed(self, rows: int, told: BatchRun | None = None) -> None:
        """Record that a batch of ``rows`` records took longer than allowed. For ``told``, see :meth:`Pace.failed`."""
        with self._lock:
            self._pace = self._pace.failed(rows, told)

    def shorten(self, seconds: float) -> None:
        """Limit each further batch to about ``seconds``, and to no more records than the batch before it. The limit for
        later queries stays the same.
        """
        with self._lock:
            self._longest = seconds

    def begin(self) -> None:
        """Record that a query of the lane starts."""
        with self._lock:
            self._limits, self._at, self._given, self._longest = None, {}, {}, math.inf

    def limits(self, query: StreamingQuery) -> ReadLimits:
        """The limits of the lane's running query."""
        with self._lock:
            return self._limits_of(query)

    def ran(self, batch: int, seconds: float) -> None:
        """Record how many seconds the writing of a batch took, and give the sources new limits if the limits have
        changed. Must be called in the thread of the batch's query.
        """
        with self._lock:
            query = read_limits.current(self._spark) if self._limits is None else None
            if query is None and self._limits is None:
                return  # the query has ended
            limits = self._limits if query is None else self._limits_of(query)
            assert limits is not None
            taken = self._taken(limits)
            self._written = dict([*self._written.items(), (batch, seconds)][-_REMEMBERED:])
            rows = sum(each.rows for each in taken.values())
            self._pace = self._pace.after(BatchRun(rows, seconds + self._beside, sharing.is_bound(taken)))
            limit = self._pace.limit
            if not math.isinf(self._longest) and rows:
                limit = max(1, min(limit, round(rows * min(1.0, self._longest / max(seconds, _NO_TIME)))))
            self._shares = self._shares | sharing.shares(limit, self._most, taken)
            given = {place: self._shares[name] for place, (name, _) in self._at.items() if name in taken}
            if given != self._given:
                limits.give(given)
                self._given = given

    def took(self, batch: int, seconds: float) -> None:
        """Record the total duration of a batch: of its planning, writing and commit."""
        with self._lock:
            if batch in self._written:
                beside = max(0.0, seconds - self._written.pop(batch))
                self._besides = (*self._besides, beside)[-_BESIDES:]

    @property
    def _beside(self) -> float:
        """How many seconds a batch takes in addition to its writing. Of the most recent batches, the shortest time
        counts, because the first batch of a query takes much longer. 0 until two batches have been measured.
        """
        return min(self._besides) if len(self._besides) > 1 else 0.0

    def _limits_of(self, query: StreamingQuery) -> ReadLimits:
        if self._limits is None:
            self._limits = ReadLimits(self._spark, query)
        return self._limits

    def _taken(self, limits: ReadLimits) -> dict[str, SourceShare]:
        """The share that each input has contributed to the running batch, by the input's name."""
        named = [_positions(each) for each in limits.ends()]
        ends = {place: (name, end) for place, (name, end) in enumerate(named) if name in self._inputs}
        if not ends.keys() <= self._at.keys():  # this is the first batch
            for place, each in enumerate(limits.begins()):
                self._at.setdefault(place, _positions(each))
        found: dict[str, SourceShare] = {}
        for place, (name, end) in ends.items():
            begin = self._at[place][1] or self._inputs[name]
            rows = sum(max(0, at - begin.get(partition, at)) for partition, at in end.items())
            found[name] = SourceShare(rows, self._shares[name], len(end))
            self._at[place] = (name, end)
        return found

    def _even(self) -> dict[str, int]:
        return sharing.shares(
            self._pace.limit, self._most, {name: SourceShare(self._most, self._most) for name in self._inputs}
        )


def name_of(offset: Mapping[str, Any]) -> str:
    """The name of an input. ``offset`` is any offset of this input, in the form that the input's system uses."""
    named = isinstance(offset.get("stream"), str)  # otherwise "stream" may be the name of a topic
    return f"stream {offset['stream']}" if named else f"topic {next(iter(offset))}"


def _positions(offset: str) -> tuple[str, dict[int, int]]:
    """The name of an input and the positions in its partitions, from an offset in Spark's JSON. For the offset of a
    clock, and for an empty offset, the name is '', and there are no positions.
    """
    told: dict[str, Any] = json.loads(offset) if offset else {}
    if not told or clock.is_of_clock(told):
        return "", {}
    held = told["positions"] if isinstance(told.get("stream"), str) else next(iter(told.values()))
    return name_of(told), {int(partition): int(at) for partition, at in held.items()}
