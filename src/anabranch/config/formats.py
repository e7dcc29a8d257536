"""The section ``[formats]``."""

from __future__ import annotations

from pathlib import Path

from anabranch.config.section import Section

__all__ = ["FormatsSettings"]


class FormatsSettings(Section):
    """The settings for values in binary formats."""

    registry: str | None = None
    """The URL of the schema registry, for the format ``confluent``."""

    registry_username: str | None = None
    registry_password: str | None = None
    """The user and the password for the registry. Both can be references."""

    registry_client: dict[str, str | int | float | bool] = {}
    """Further properties of Confluent's client, such as those for TLS and OAuth."""

    avro: str = "org.apache.spark:spark-avro_2.13:4.1.1"
    """Maven coordinates of Spark's Avro module. Used only if this machine has no jar of the module."""

    jars: Path | None = None
    """A folder with the jar of Spark's Avro module. This setting takes precedence over ``avro``."""
