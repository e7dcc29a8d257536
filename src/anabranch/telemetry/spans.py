"""Makes OpenTelemetry spans: one for each failure of a lane, and one for each batch, with a child span for each phase
of the batch that took time."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.context import Context

from anabranch.model.lane import Lane
from anabranch.protocol.lane_report import BatchPhase, LaneReport

__all__ = ["BATCH", "FAILURE", "BatchSpans"]

BATCH, FAILURE = "batch", "lane failed"
_NS = 1_000_000_000


class BatchSpans:
    """Creates spans from the batches of lanes.

    Each phase that took time, according to a batch's report, becomes a span. The span is as long as the phase was, but
    ends no later than the batch. In reality, phases overlap or alternate. The spans, however, follow one another in the
    order in which records pass through the phases.

    Args:
        tracer: creates the spans.
        now: returns seconds since 1970.
    """

    def __init__(self, tracer: trace.Tracer, now: Callable[[], float] = time.time) -> None:
        self._tracer = tracer
        self._now = now

    def committed(self, lane: Lane, report: LaneReport, rows: int) -> None:
        """Export a span for a batch that has just ended."""
        end = round(self._now() * _NS)
        begin = end - round(report.load.seconds * _NS)
        attributes = {**_described(lane, report), "anabranch.rows": rows}
        batch = self._tracer.start_span(BATCH, context=Context(), start_time=begin, attributes=attributes)
        inside = trace.set_span_in_context(batch, Context())
        for phase in BatchPhase:
            seconds = report.load.spent.get(phase, 0.0)
            if seconds > 0:
                part = self._tracer.start_span(phase.value, context=inside, start_time=begin)
                begin = min(end, begin + round(seconds * _NS))
                part.end(end_time=begin)
        batch.end(end_time=end)

    def failed(self, lane: Lane, report: LaneReport) -> None:
        """Export a span without duration, whose status contains the error."""
        attributes = {**_described(lane, report), "anabranch.attempt": report.attempt.number}
        now = round(self._now() * _NS)
        span = self._tracer.start_span(FAILURE, context=Context(), start_time=now, attributes=attributes)
        span.set_status(trace.Status(trace.StatusCode.ERROR, report.error))
        span.end(end_time=now)


def _described(lane: Lane, report: LaneReport) -> dict[str, str | int]:
    return {
        "anabranch.job": lane.job,
        "anabranch.deployment": lane.deployment,
        "anabranch.stage": lane.stage,
        "anabranch.lane": lane.id,
        "anabranch.epoch": lane.epoch,
        "anabranch.factor": lane.factor,
        "anabranch.batch": report.progress.batch,
        "spark.run.id": report.attempt.run,
    }
