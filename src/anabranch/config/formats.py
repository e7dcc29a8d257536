"""The section ``[formats]``."""

from __future__ import annotations

from pathlib import Path

from anabranch.config.section import Section

__all__ = ["FormatsSettings"]


class FormatsSettings(Section):
    """The settings for values in binary formats."""

    registry: str | None = None
    """The URL of a schema registry, for ``confluent``."""

    registry_username: str | None = None
    registry_password: str | None = None
    """The login; both parts may be references."""

    registry_client: dict[str, str | int | float | bool] = {}
    """Further properties of Confluent's client, for TLS and OAuth."""

    avro: str = "org.apache.spark:spark-avro_2.13:4.1.1"
    """Maven coordinates of Spark's Avro module."""

    jars: Path | None = None
    """A folder with that jar, which takes precedence over ``avro``."""
