"""The section ``[systems]``, and the sections of all systems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from anabranch.config.durations import PositiveDuration
from anabranch.config.secrets import resolved
from anabranch.config.section import Section
from anabranch.config.storage import is_uri

__all__ = ["EmbeddedSettings", "KafkaSettings", "OtherSystemSettings", "SystemSettings", "SystemsSettings"]

_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SECRET = re.compile(
    r"password|passphrase|secret|jaas|key\.pem|keystore\.key|private\.key(?!\.file)|(?<!oauthbearer\.)token",
    re.IGNORECASE,
)
"""Matches the names of those settings of Kafka's clients that contain secrets. (The value of
``sasl.oauthbearer.token.endpoint.url`` isn't a secret, but an address.)
"""
ONLY_SOME = ("delivery", "on_data_loss", "topic")
"""The settings of a stream that only some systems support."""


class SystemSettings(Section):
    """The base class of the sections of systems."""

    stream_settings: ClassVar[tuple[str, ...]] = ()
    """The settings among ``ONLY_SOME`` that streams in this system can have."""

    path_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that are paths. A relative path is resolved from the configuration file's folder."""

    @property
    def secrets(self) -> dict[str, str | None]:
        """The values of the settings that contain secrets, by the settings' names; None if a setting isn't set."""
        return {}


class EmbeddedSettings(SystemSettings):
    """Where the embedded log is."""

    stream_settings = ("on_data_loss",)
    path_settings = ("root",)

    root: Path = Path("./.anabranch/streams")
    """The folder of the streams, on a local disk."""

    @field_validator("root", mode="before")
    @classmethod
    def _local(cls, root: Any) -> Any:
        if is_uri(str(root)):
            raise ValueError("the embedded log is on a local disk: give a path, not a URI")
        return root


class KafkaSettings(SystemSettings):
    """How anabranch connects to a Kafka cluster, and the settings of the topics and transactions that it creates there.

    Passwords can be references: ``${env:NAME}``, ``${file:PATH}``.
    """

    stream_settings = ONLY_SOME
    path_settings = ("ssl_ca", "ssl_certificate", "ssl_key", "jars")

    bootstrap_servers: str = "localhost:9092"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None

    # These are PEM files.
    ssl_ca: Path | None = None
    ssl_certificate: Path | None = None
    ssl_key: Path | None = None
    ssl_key_password: str | None = None

    rack: str | None = None
    """The rack from whose replicas records are fetched, if the brokers allow that."""

    prefix: str = "anabranch"
    """The prefix of transactional ids, and of the names of the consumer groups that hold markers."""

    replication_factor: int = Field(default=-1, ge=-1)
    transaction_timeout: PositiveDuration = "2 minutes"

    packages: str | None = None
    """Maven coordinates of Spark's connector; None: the version that matches PySpark."""

    jars: Path | None = None
    """A folder with the connector's jars. This setting takes precedence over ``packages``."""

    client: dict[str, str] = {}
    """Further settings of librdkafka's clients."""

    spark: dict[str, str] = {}
    """Further settings of the Java clients that Spark uses."""

    @property
    def secrets(self) -> dict[str, str | None]:
        own: dict[str, str | None] = {name: getattr(self, name) for name in ("sasl_password", "ssl_key_password")}
        further = [("client", self.client), ("spark", self.spark)]
        return own | {f"{kind}.{n}": text for kind, given in further for n, text in given.items() if _SECRET.search(n)}


class OtherSystemSettings(SystemSettings):
    """The section ``[systems.NAME]`` of a system that anabranch doesn't ship.

    ``class`` is the system's class, a :class:`anabranch.systems.contract.System`, as ``module:Class``. The class
    determines the other settings. A relative ``path`` or ``root`` is resolved from the configuration file's folder.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    stream_settings = ONLY_SOME  # the class determines which of them it supports: see Systems

    @model_validator(mode="before")
    @classmethod
    def _named(cls, section: Any) -> Any:
        if not isinstance(section, dict | OtherSystemSettings):
            raise PydanticCustomError("extra_forbidden", "there is no such setting")
        if isinstance(section, dict) and not _CLASS.fullmatch(str(section.get("class", ""))):
            raise PydanticCustomError(
                "no_class",
                "a system that anabranch doesn't ship needs a class",
                {"cure": 'set class = "module:Class", as in class = "my_company.streams:OurSystem"'},
            )
        return section

    @property
    def class_(self) -> str:
        """The class, as ``module:Class``."""
        return str((self.model_extra or {})["class"])

    @property
    def options(self) -> dict[str, Any]:
        """The settings of that class."""
        return {name: value for name, value in (self.model_extra or {}).items() if name != "class"}


class SystemsSettings(Section):
    """The section ``[systems]``, with a subsection for each system. ``default`` is the system of all of the user's
    streams that aren't bound to another system.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, OtherSystemSettings] = Field(init=False)

    default: str = "embedded"
    embedded: EmbeddedSettings = EmbeddedSettings()
    kafka: KafkaSettings = KafkaSettings()

    @model_validator(mode="after")
    def _known(self) -> SystemsSettings:
        odd = next((name for name in self.others if not _NAME.fullmatch(name)), None)
        if odd is not None:
            raise ValueError(
                f"{odd!r} can't be the name of a system: a name begins with a letter from a to z, and has only such "
                "letters, digits and _"
            )
        self.check("systems.default", self.default)
        return self

    @property
    def others(self) -> dict[str, OtherSystemSettings]:
        """The sections of the systems that anabranch doesn't ship, by name."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def sections(self) -> dict[str, SystemSettings]:
        """The sections of all systems, by name."""
        return {"embedded": self.embedded, "kafka": self.kafka, **self.others}

    @property
    def rack(self) -> str | None:
        """The rack of this process: the ``rack`` of the first section that sets one; None if none does. An empty rack
        counts as not set. Raises ConfigError if the rack contains a reference that can't be resolved here.
        """
        racks = {name: getattr(section, "rack", None) for name, section in self.sections.items()}
        known = (resolved(f"systems.{name}.rack", str(rack)) for name, rack in racks.items() if rack is not None)
        return next(filter(None, known), None)

    def with_rack(self, rack: str) -> SystemsSettings:
        """A copy in which every setting ``rack`` has this value."""
        mine = {name: section for name, section in self.sections.items() if hasattr(section, "rack")}
        return self.model_copy(update={n: section.model_copy(update={"rack": rack}) for n, section in mine.items()})

    def check(self, setting: str, name: str) -> None:
        """Raise one of pydantic's errors unless ``name``, the value of ``setting``, is the name of a system."""
        if name not in self.sections:
            raise PydanticCustomError(
                "unknown_system",
                "setting '{setting}' has the value '{name}', and there is no such system",
                {
                    "setting": setting,
                    "name": name,
                    "cure": f"name one of {', '.join(sorted(self.sections))}; or add [systems.{name}] with "
                    'class = "module:Class"',
                },
            )
