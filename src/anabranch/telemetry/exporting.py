"""Starts and ends the export of traces and metrics in a process, if OpenTelemetry's variables ask for it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError, ConfigError
from anabranch.telemetry import asked, batches
from anabranch.telemetry.asked import Signal
from anabranch.throttle import Throttled

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from prometheus_client.core import Metric

__all__ = ["metrics", "traces"]

_SERVICE = "anabranch"
_INSTALL = "pip install 'anabranch[opentelemetry]', or unset OTEL_{}_EXPORTER and OTEL_EXPORTER_OTLP_ENDPOINT"
_ENDS_WITHIN = 5.0
"""For how many seconds a process waits for the last export when the process ends."""


@contextmanager
def traces(service: str, say: Callable[[str], None]) -> Iterator[None]:
    """If OpenTelemetry's variables ask for traces, export spans inside ``with``. There is a span for each batch of this
    process's lanes, and for each failure of a lane.

    Args:
        service: the service name of the spans, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES sets another.
        say: a function that gets OpenTelemetry's warnings. If a requested export isn't possible, the function gets the
            reason, and the job runs without the export.
    """
    with ExitStack() as until:
        _started("traces", say, lambda wanted: _trace(wanted, service, until))
        yield


@contextmanager
def metrics(
    service: str,
    collect: Callable[[], Sequence[Metric]],
    say: Callable[[str], None],
) -> Iterator[None]:
    """If OpenTelemetry's variables ask for metrics, export metrics inside ``with``, every OTEL_METRIC_EXPORT_INTERVAL
    milliseconds.

    Args:
        service: as for :func:`traces`.
        collect: a function that computes the current metrics, in the form of :func:`anabranch.metrics.families`.
        say: as for :func:`traces`.
    """
    with ExitStack() as until:
        _started("metrics", say, lambda wanted: _measure(wanted, service, collect, until))
        yield


class _Troubles(logging.Handler):
    """Reports OpenTelemetry's warnings, such as failed exports, but at most one every ten minutes."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = Throttled(say)

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"warning: OpenTelemetry: {record.getMessage()}")


def _hear(say: Callable[[str], None]) -> None:
    """Pass OpenTelemetry's warnings to ``say``, unless a handler of OpenTelemetry's logger, or of a parent of this
    logger, already gets them."""
    logger = logging.getLogger("opentelemetry")
    if not logger.hasHandlers():
        logger.addHandler(_Troubles(say))
        logger.propagate = False


def _started(signal: Signal, say: Callable[[str], None], start: Callable[[Sequence[str]], None]) -> None:
    try:
        wanted = asked.exporters(signal, os.environ)
        if wanted:
            _hear(say)
            try:
                start(wanted)
            except ImportError as error:
                raise ConfigError(f"{error.name} isn't installed", _INSTALL.format(signal.upper())) from error
            except ValueError as error:
                raise ConfigError(f"OpenTelemetry refuses a variable: {error}", "correct the OTEL_ variable") from error
    except AnabranchError as error:
        say(f"warning: {signal} aren't exported: {error}")


def _trace(wanted: Sequence[str], service: str, until: ExitStack) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    from anabranch.telemetry.spans import BatchSpans

    exporters: list[SpanExporter] = []
    if "otlp" in wanted:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporters.append(OTLPSpanExporter())
    if "console" in wanted:
        exporters.append(ConsoleSpanExporter())
    provider = TracerProvider(resource=_resource(service), shutdown_on_exit=False)
    for each in exporters:
        provider.add_span_processor(BatchSpanProcessor(each))
    batches.observed_by(BatchSpans(provider.get_tracer(_SERVICE)))
    until.callback(_end, provider)
    until.callback(batches.observed_by, None)


def _measure(
    wanted: Sequence[str],
    service: str,
    collect: Callable[[], Sequence[Metric]],
    until: ExitStack,
) -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        ConsoleMetricExporter,
        MetricExporter,
        PeriodicExportingMetricReader,
    )

    from anabranch.metrics import families
    from anabranch.telemetry import gauges

    exporters: list[MetricExporter] = []
    if "otlp" in wanted:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        exporters.append(OTLPMetricExporter())
    if "console" in wanted:
        exporters.append(ConsoleMetricExporter())
    readers = [PeriodicExportingMetricReader(each) for each in exporters]
    provider = MeterProvider(readers, resource=_resource(service), shutdown_on_exit=False)
    gauges.observe(provider.get_meter(_SERVICE), collect, families())
    until.callback(_end, provider)


def _resource(service: str) -> Resource:
    from importlib.metadata import version

    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource

    ours = Resource({SERVICE_NAME: service, SERVICE_VERSION: version("anabranch")})
    return Resource.create().merge(ours).merge(OTELResourceDetector().detect())


def _end(provider: Any) -> None:
    """Shut the provider down. The provider then exports whatever hasn't been exported yet. Wait at most
    ``_ENDS_WITHIN`` seconds, and raise no error."""
    ending = threading.Thread(target=provider.shutdown, name="exports the last figures", daemon=True)
    ending.start()
    ending.join(_ENDS_WITHIN)
