"""What OpenTelemetry's variables ask for."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.telemetry import asked

ALL, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
URL = "http://collector:4318"


@pytest.mark.parametrize(
    ("environment", "traces", "metrics"),
    [
        ({}, (), ()),
        ({"OTEL_SERVICE_NAME": "flights"}, (), ()),
        ({ALL: URL}, ("otlp",), ("otlp",)),
        ({ALL: " "}, (), ()),
        ({TRACES: URL}, ("otlp",), ()),
        ({ALL: URL, "OTEL_METRICS_EXPORTER": "none"}, ("otlp",), ()),
        ({"OTEL_TRACES_EXPORTER": "console"}, ("console",), ()),
        ({"OTEL_TRACES_EXPORTER": "otlp, Console,otlp"}, ("otlp", "console"), ()),
        ({ALL: URL, "OTEL_SDK_DISABLED": "TRUE"}, (), ()),
        ({ALL: URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ("otlp",), ("otlp",)),
    ],
)
def test_exporters(environment: dict[str, str], traces: tuple[str, ...], metrics: tuple[str, ...]) -> None:
    assert asked.exporters("traces", environment) == traces
    assert asked.exporters("metrics", environment) == metrics


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "jaeger", "names jaeger\n  set it to one of otlp, console, none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "is grpc\n  set it to http/protobuf, and the endpoint to "),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "is http/json\n  set it to http/protobuf"),
    ],
)
def test_what_there_is_not(name: str, value: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        asked.exporters("traces", {ALL: URL, name: value})
    assert str(raised.value).startswith(f"{name} {told}")
