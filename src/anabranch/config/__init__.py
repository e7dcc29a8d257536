"""Defines the settings, with a module for each section, and loads and stores them."""

from anabranch.config.assignment import AssignmentSettings
from anabranch.config.autoscale import AutoscaleSettings
from anabranch.config.coordinator import CoordinatorSettings
from anabranch.config.dumping import dumped
from anabranch.config.formats import FormatsSettings
from anabranch.config.job import MOST_CONTAINERS, JobSettings
from anabranch.config.loading import (
    FILE_NAME,
    PREFIX,
    drop_environment,
    environment_of_containers,
    load,
    of_job,
    read_toml,
    restored,
)
from anabranch.config.outputs import OutputSettings
from anabranch.config.settings import Settings
from anabranch.config.spark import SparkSettings
from anabranch.config.storage import StorageSettings
from anabranch.config.streams import StreamSettings
from anabranch.config.systems import EmbeddedSettings, KafkaSettings, OtherSystemSettings, SystemsSettings

__all__ = [
    "FILE_NAME",
    "MOST_CONTAINERS",
    "PREFIX",
    "AssignmentSettings",
    "AutoscaleSettings",
    "CoordinatorSettings",
    "EmbeddedSettings",
    "FormatsSettings",
    "JobSettings",
    "KafkaSettings",
    "OtherSystemSettings",
    "OutputSettings",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "StreamSettings",
    "SystemsSettings",
    "drop_environment",
    "dumped",
    "environment_of_containers",
    "load",
    "of_job",
    "read_toml",
    "restored",
]
