"""Finds Spark's Avro module, which the formats avro and confluent need: in a folder, in the cache of ``anabranch jars
fetch``, or in Maven.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anabranch import cache_dir
from anabranch.config import FormatsSettings, Settings
from anabranch.errors import ConfigError

__all__ = ["AVRO", "MODULES", "conf", "found", "jars", "needed"]

AVRO = "4.1.1"
"""The version of Spark's Avro module that ``anabranch jars fetch avro`` fetches."""

MODULES = {"avro": "spark-avro", "confluent": "spark-avro"}
"""Maps the name of a format to the Spark module that the format needs."""


def needed(settings: Settings) -> list[str]:
    """The names of the modules that the formats of the configured streams need."""
    return sorted({MODULES[each.format] for each in settings.streams.values() if each.format in MODULES})


def found(settings: FormatsSettings, module: str) -> Path | str:
    """The path of a module's jar. If this machine doesn't have the jar, the result is the Maven coordinates with which
    Spark fetches the module.

    Raises:
        ConfigError: the configured folder doesn't contain the jar.
    """
    if settings.jars is not None:
        files = sorted(settings.jars.glob(f"{module}_*.jar")) if settings.jars.is_dir() else []
        if not files:
            raise ConfigError(
                f"[formats] jars names {settings.jars}, which lacks {module}_2.13-*.jar",
                f"put {_packages(settings)[module]} there, or leave the setting out",
            )
        return files[-1]
    avro = cache_dir.folder() / f"avro-{AVRO}" / f"spark-avro_2.13-{AVRO}.jar"
    if module == "spark-avro" and avro.is_file():
        return avro
    return _packages(settings)[module]


def jars(settings: FormatsSettings, module: str) -> str:
    """The name of the set of jars (in :data:`anabranch.jars.pinned.SETS`) from which a module's jar is taken once the
    set is fetched. Empty if there is no such set, or if the jar is taken from the configured folder.
    """
    return "avro" if module == "spark-avro" and settings.jars is None else ""


def conf(settings: Settings, held: Mapping[str, str]) -> dict[str, str]:
    """The Spark properties with which a session loads the modules that the configured streams need. ``held`` contains
    the session's other properties; any jars and packages that they name are included in the result.
    """
    files = [held["spark.jars"]] if "spark.jars" in held else []
    packages = [held["spark.jars.packages"]] if "spark.jars.packages" in held else []
    for module in needed(settings):
        where = found(settings.formats, module)
        (packages if isinstance(where, str) else files).append(str(where))
    given = {"spark.jars": ",".join(files), "spark.jars.packages": ",".join(packages)}
    return {name: value for name, value in given.items() if value}


def _packages(settings: FormatsSettings) -> dict[str, str]:
    return {"spark-avro": settings.avro}
