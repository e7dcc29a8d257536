"""Defines the settings as a whole, and checks the conditions that concern several sections."""

from __future__ import annotations

from pydantic import model_validator

from anabranch.config.assignment import AssignmentSettings
from anabranch.config.coordinator import CoordinatorSettings
from anabranch.config.formats import FormatsSettings
from anabranch.config.job import JobSettings
from anabranch.config.outputs import OutputSettings
from anabranch.config.section import Section
from anabranch.config.spark import SparkSettings
from anabranch.config.storage import StorageSettings
from anabranch.config.streams import OF_FORMATS, StreamSettings
from anabranch.config.systems import ONLY_SOME, SystemsSettings

__all__ = ["Settings"]


class Settings(Section):
    """All settings, with one attribute for each section."""

    job: JobSettings = JobSettings()
    assignment: AssignmentSettings = AssignmentSettings()
    storage: StorageSettings = StorageSettings()
    coordinator: CoordinatorSettings = CoordinatorSettings()
    systems: SystemsSettings = SystemsSettings()
    formats: FormatsSettings = FormatsSettings()
    streams: dict[str, StreamSettings] = {}
    outputs: dict[str, OutputSettings] = {}
    spark: SparkSettings = SparkSettings()

    @model_validator(mode="after")
    def _deliveries(self) -> Settings:
        for stream, each in self.streams.items():
            system = each.system or self.systems.default
            self.systems.check(f"streams.{stream}.system", system)
            taken = self.systems.sections[system].stream_settings
            odd = [name for name in ONLY_SOME if name in each.model_fields_set and name not in taken]
            if odd:
                raise ValueError(f"streams.{stream}.{odd[0]} is for streams in Kafka, and {stream} lives in {system}")
            for name, formats in OF_FORMATS.items():
                if name in each.model_fields_set and each.format not in formats:
                    raise ValueError(f"streams.{stream}.{name} is for format {' or '.join(formats)}, not {each.format}")
        return self

    @model_validator(mode="after")
    def _autoscale(self) -> Settings:
        job, limits = self.job, self.job.autoscale
        if limits is None:
            return self
        if not limits.min <= job.factor <= limits.max:
            raise ValueError(f"job.factor = {job.factor} isn't in job.autoscale: {limits.min} to {limits.max}")
        if job.trigger == "real-time":
            raise ValueError('job.autoscale is for Python functions, and trigger = "real-time" has none')
        if job.grouper == "all":
            raise ValueError('job.autoscale changes the factor, but with grouper = "all" the factor is always 1')
        return self

    @model_validator(mode="after")
    def _bound_once(self) -> Settings:
        twice = sorted(self.streams.keys() & self.outputs.keys())
        if twice:
            raise ValueError(f"{twice[0]} is both a stream, streams.{twice[0]}, and a table, outputs.{twice[0]}")
        return self

    @property
    def patterns(self) -> dict[str, str]:
        """The ``pattern`` of each input that has one, by input."""
        return {stream: each.pattern for stream, each in self.streams.items() if each.pattern is not None}

    @property
    def at_least_once(self) -> frozenset[str]:
        """The streams that have ``delivery = "at-least-once"``."""
        return frozenset(stream for stream, each in self.streams.items() if each.delivery == "at-least-once")

    def is_plain(self, stream: str) -> bool:
        """Whether the job promises only at-least-once output to a stream."""
        return self.job.trigger == "real-time" or stream in self.at_least_once
