"""Makes OpenTelemetry instruments for a coordinator's metrics. Each instrument has the metric's Prometheus name, but
a counter's name doesn't end with ``_total``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from prometheus_client.core import CounterMetricFamily, Metric

__all__ = ["observe"]

_FRESH = 1.0
"""For how many seconds computed metrics are reused, so that they are computed only once for all instruments of an
export. If the metrics can't be computed, they aren't computed again during this time, either."""


def observe(meter: Meter, collect: Callable[[], Sequence[Metric]], names: Sequence[Metric]) -> None:
    """Create an instrument for each family of metrics.

    Args:
        meter: creates the instruments.
        collect: a function that computes the current metrics. If the function raises an error, no instrument reports
            anything in this export.
        names: all families that ``collect`` can return. Their samples are ignored.
    """
    present = _Present(collect)
    for family in names:
        make = meter.create_observable_counter if _counts(family) else meter.create_observable_gauge
        make(family.name, callbacks=[_callback(present, family.name)], description=family.documentation)


def _counts(family: Metric) -> bool:
    return isinstance(family, CounterMetricFamily)


def _callback(present: _Present, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: present.of(name)


class _Present:
    def __init__(self, collect: Callable[[], Sequence[Metric]]) -> None:
        self._collect = collect
        self._lock = threading.Lock()
        self._families: Mapping[str, Metric] = {}
        self._at = float("-inf")

    def of(self, name: str) -> list[Observation]:
        with self._lock:
            if time.monotonic() > self._at + _FRESH:
                self._families = {}
                try:
                    self._families = {each.name: each for each in self._collect()}
                finally:
                    self._at = time.monotonic()
            family = self._families.get(name)
        return [] if family is None else [Observation(float(each.value), each.labels) for each in family.samples]
