"""Determines which exporters to use, based on OpenTelemetry's environment variables. Pure functions.

See https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from anabranch.errors import ConfigError

__all__ = ["EXPORTERS", "Signal", "exporters"]

Signal = Literal["traces", "metrics"]

EXPORTERS = ("otlp", "console", "none")
_PROTOCOL = "http/protobuf"


def exporters(signal: Signal, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The exporters of a signal: "otlp", "console", both, or neither.

    Unlike OpenTelemetry itself, anabranch exports nothing unless an exporter or an OTLP endpoint is set.

    Raises:
        ConfigError: a variable asks for something that anabranch doesn't support.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    named = [each.strip().lower() for each in environment.get(variable, "").split(",") if each.strip()]
    unknown = [each for each in named if each not in EXPORTERS]
    if unknown:
        raise ConfigError(f"{variable} names {unknown[0]}", f"set it to one of {', '.join(EXPORTERS)}")
    if not named and _set(signal, "ENDPOINT", environment)[1]:
        named = ["otlp"]
    found = tuple(dict.fromkeys(each for each in named if each != "none"))
    if "otlp" in found:
        name, protocol = _set(signal, "PROTOCOL", environment)
        if protocol not in ("", _PROTOCOL):
            cure = f"set it to {_PROTOCOL}, and the endpoint to the collector's port for HTTP, usually 4318"
            raise ConfigError(f"{name} is {protocol}", cure)
    return found


def _set(signal: Signal, what: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """The name and the value of the variable that applies to a signal: the signal's own variable or, if that isn't set,
    the variable for all signals. The value is empty if neither is set. ``what`` is the common ending of both names."""
    names = f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", f"OTEL_EXPORTER_OTLP_{what}"
    values = ((name, environment.get(name, "").strip()) for name in names)
    return next((each for each in values if each[1]), (names[1], ""))
