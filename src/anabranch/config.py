"""Settings: ``anabranch.toml`` beside the job (else in the working folder), overridden by the environment."""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from anabranch.errors import ConfigError, NotFoundError
from anabranch.event_time import durations
from anabranch.model.factor import FACTORS
from anabranch.references import has_reference

__all__ = ["OutputSettings", "Settings", "dumped", "load", "restored"]

FILE_NAME = "anabranch.toml"
PREFIX = "ANABRANCH__"
_NEVER = "never"

S = TypeVar("S", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AutoscaleSettings(_Section):
    """Lets the coordinator choose a job's factor, from ``min`` to ``max``: such that Python functions work on no bucket
    more than the part ``target_busy`` of the time, and that no record waits longer than ``target_lag_seconds``, where a
    factor can do that. After a change there is none for ``cooldown``, unless records wait longer.
    """

    min: int = 1
    max: int
    target_busy: float = Field(default=0.7, gt=0, lt=1)
    target_lag_seconds: float = Field(default=60.0, ge=1, le=86_400)
    cooldown: str = "2 minutes"

    @field_validator("min", "max")
    @classmethod
    def _factor(cls, factor: int) -> int:
        if factor not in FACTORS:
            raise ValueError(f"a factor is a power of two from {FACTORS[0]} to {FACTORS[-1]}")
        return factor

    @field_validator("cooldown")
    @classmethod
    def _duration(cls, text: str) -> str:
        durations.parse(text)
        return text

    @model_validator(mode="after")
    def _range(self) -> AutoscaleSettings:
        if self.min > self.max:
            raise ValueError(f"min = {self.min} is above max = {self.max}")
        return self


class JobSettings(_Section):
    """How the job is cut into tasks and containers. ``interval`` is at least the time between the starts of batches;
    in real time it is the length of a batch (at least 5 seconds; default: 5 minutes).

    ``on_error`` and ``on_null_key`` say what becomes of a record that can't be processed, ``watermark_scope`` whether a
    lane's watermark follows the slowest of its SSPs, or is Spark's own, which follows the fastest.
    ``threads``: on how many of its buckets a Spark task works at once, where the factor is above 1.
    A lane that fails is tried again, up to ``attempts`` times in a row on one batch; so is one that has records to read
    and stands still for ``stall_after``. An SSP that was read to its end, and got nothing for ``idle_after``, holds no
    watermark back until it does ("never": it does for ever).
    A batch has at most ``max_rows_per_batch`` records of each input, and fewer where it would take longer than
    ``target_batch_seconds`` (0: it takes as long as it takes).
    ``artifact``: where containers have the job's code from: the coordinator's store, or the folder that they start in.
    ``lanes``: over so many queries a container spreads the tasks of a stage without state.
    ``warm_containers``: so many processes more than seats, which stand by.
    ``expansion_check``: how often the coordinator looks how many partitions the inputs have.
    ``on_coordinator_loss``: what a container does that doesn't hear its coordinator. One with an output that can't be
    fenced stops in any case, before its lease ends.
    """

    grouper: str = "partition"
    factor: int = 1
    threads: int = Field(default=64, ge=1, le=1024)
    lanes: int = Field(default=1, ge=1, le=64)
    containers: int = Field(default=1, ge=1, le=1000)
    autoscale: AutoscaleSettings | None = None
    artifact: Literal["store", "image"] = "store"
    warm_containers: int = Field(default=0, ge=0, le=100)
    trigger: Literal["micro-batch", "real-time"] = "micro-batch"
    interval: str = "0 seconds"
    max_rows_per_batch: int = Field(default=1_000_000, ge=1)
    target_batch_seconds: float = Field(default=4.0, ge=0, le=3600, allow_inf_nan=False)
    state_partitions: int = Field(default=4, ge=1, le=1024)
    on_error: Literal["dead-letter", "drop", "fail"] = "dead-letter"
    on_null_key: Literal["dead-letter", "drop", "fail"] = "dead-letter"
    watermark_scope: Literal["ssp", "lane"] = "ssp"
    attempts: int = Field(default=3, ge=1, le=1000)
    stall_after: str = "5 minutes"
    idle_after: str = "1 minute"
    message_timeout: str | None = None
    expansion_check: str = "60 seconds"
    on_coordinator_loss: Literal["continue", "stop"] = "continue"

    @property
    def idle_seconds(self) -> float:
        """``idle_after``, as seconds."""
        return math.inf if self.idle_after == _NEVER else durations.parse(self.idle_after) / 1000

    @field_validator("idle_after")
    @classmethod
    def _idle_after(cls, text: str) -> str:
        if text != _NEVER and not durations.parse(text):
            raise ValueError('give some time, as "1 minute", or "never"')
        return text

    @field_validator("message_timeout")
    @classmethod
    def _message_timeout(cls, text: str | None) -> str | None:
        if text is not None and not durations.parse(text):
            raise ValueError('give some time, as "1 minute", or leave it out')
        return text

    @field_validator("interval", "stall_after", "expansion_check")
    @classmethod
    def _duration(cls, text: str) -> str:
        durations.parse(text)
        return text


class AssignmentSettings(_Section):
    """Which container seat a task gets, once all have as many as others. ``strategy``: racks don't count (``none``), or
    as little is read from other racks as can be: over all stages together (``min_traffic``), or with each stage
    balanced, too (``balance_subtopology``). ``first``: whether each partition in few containers comes before that, or
    after it. ``racks``: those of the seats, in turn, until containers say theirs.

    ``traffic_cost`` of each partition that a container reads from another rack, ``non_overlap_cost`` of each task that
    moves. ``standbys``: so many copies of each stateful lane's folder are kept up to date by other processes, for those
    who go on from it.
    """

    strategy: Literal["none", "min_traffic", "balance_subtopology"] = "none"
    first: Literal["containers", "traffic"] = "containers"
    racks: list[str] = []
    standbys: int = Field(default=0, ge=0, le=8)
    traffic_cost: int = Field(default=10, ge=0, le=1_000_000_000)
    non_overlap_cost: int = Field(default=1, ge=0, le=1_000_000_000)


class StorageSettings(_Section):
    """``root``: where lanes' checkpoint folders live: a path or any URI that Spark can checkpoint to."""

    root: str = "./.anabranch/lanes"


class CoordinatorSettings(_Section):
    """``store``: a database URL; a relative SQLite path is taken from the configuration's folder.

    ``url``: where the coordinator listens, for the verbs and for containers (several: separated by commas). ``token``:
    what it wants to see, maybe a reference. A container's ``lease`` ends so long after its last beat; ``grace`` is what
    the coordinator waits beyond that; ``period`` the longest time between two beats. ``launcher``: who starts
    containers: somebody else, or the coordinator that leads, on its own machine; ``logs``: where what those say is kept
    (default: ``containers`` beside a store in SQLite, else in ``.anabranch``).
    """

    store: str = "sqlite:///./.anabranch/coordinator.db"
    url: str | None = None
    token: str | None = None
    lease: str = "10 seconds"
    grace: str = "2 seconds"
    period: str = "2 seconds"
    launcher: Literal["external", "local"] = "external"
    logs: Path | None = None

    @field_validator("lease", "grace", "period")
    @classmethod
    def _duration(cls, text: str) -> str:
        durations.parse(text)
        return text


class EmbeddedSettings(_Section):
    """``root``: a local folder that holds the embedded log's streams."""

    root: Path = Path("./.anabranch/streams")


class KafkaSettings(_Section):
    """How to reach a Kafka cluster, and what the job keeps there; for admin, sources and outputs alike.

    Passwords may be references: ``${env:NAME}``, ``${file:PATH}``. ``ssl_*`` name PEM files. ``rack``: fetch from
    replicas in this rack. ``prefix`` begins the names of transactional ids and marker groups. ``packages`` are Maven
    coordinates of Spark's connector (None: of the version that PySpark has), ``jars`` a folder with its jars, which
    wins. ``client`` and ``spark`` are further settings of librdkafka's and of Java's clients.
    """

    bootstrap_servers: str = "localhost:9092"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None
    ssl_ca: Path | None = None
    ssl_certificate: Path | None = None
    ssl_key: Path | None = None
    ssl_key_password: str | None = None
    rack: str | None = None
    prefix: str = "anabranch"
    replication_factor: int = Field(default=-1, ge=-1)
    transaction_timeout: str = "2 minutes"
    packages: str | None = None
    jars: Path | None = None
    client: dict[str, str] = {}
    spark: dict[str, str] = {}

    @field_validator("transaction_timeout")
    @classmethod
    def _duration(cls, text: str) -> str:
        durations.parse(text)
        return text


SystemName = Literal["embedded", "kafka"]


class SystemsSettings(_Section):
    """The systems that streams can live in; ``default`` is that of streams which aren't bound to one."""

    default: SystemName = "embedded"
    embedded: EmbeddedSettings = EmbeddedSettings()
    kafka: KafkaSettings = KafkaSettings()


class FormatsSettings(_Section):
    """What values in binary formats take. ``registry``: the URL of a schema registry, for ``confluent``; the login may
    be references. ``avro`` are the Maven coordinates of what Spark reads Avro with, ``jars`` a folder with its jar,
    which wins.
    """

    registry: str | None = None
    registry_username: str | None = None
    registry_password: str | None = None
    avro: str = "org.apache.spark:spark-avro_2.13:4.1.1"
    jars: Path | None = None


class StreamSettings(_Section):
    """Binds a stream of the job to a system and says how its values are written.

    ``system``: default: ``[systems] default``. ``topic``: its name in Kafka (default: the stream's own). ``pattern``: a
    regular expression: the input is all streams of the system that have such a name, those that come later, too.
    ``schema_file``: of avro and confluent, an Avro schema; of protobuf, a descriptor set, and ``message`` one in it.
    ``subject`` is that of confluent (default: the topic and ``-value``).
    ``delivery`` is that of the output; with ``task_header`` its records tell the task that wrote them.
    ``on_data_loss`` what a lane does when records that it hasn't read are gone.
    """

    system: SystemName | None = None
    topic: str | None = None
    pattern: str | None = None
    format: Literal["json", "string", "raw", "avro", "protobuf", "confluent"] = "json"
    schema_file: Path | None = None
    message: str | None = None
    subject: str | None = None
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    task_header: bool = False
    on_data_loss: Literal["fail", "earliest"] = "fail"

    @field_validator("pattern")
    @classmethod
    def _regular(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                re.compile(text)
            except re.error as error:
                raise ValueError(f"{text!r} is no regular expression: {error}") from None
        return text

    @model_validator(mode="after")
    def _one_or_many(self) -> StreamSettings:
        odd = next((name for name in ("topic", "delivery", "task_header") if name in self.model_fields_set), None)
        if self.pattern is not None and odd is not None:
            raise ValueError(f"{odd} is for one stream, and pattern = {self.pattern!r} is for an input of many")
        if self.pattern is not None and self.format == "confluent" and self.subject is None:
            raise ValueError(f"which subject the streams of pattern = {self.pattern!r} have isn't clear: set subject")
        return self


class OutputSettings(_Section):
    """Binds what a job writes under a name to a table instead of a stream.

    ``to``: ``parquet``, ``postgresql``, ``delta``, or a class of yours as ``module:Class``. All other settings are that
    kind's own: see :mod:`anabranch.tables`. A relative ``path`` starts where all paths do.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    to: str

    @property
    def options(self) -> dict[str, Any]:
        """The settings of its kind."""
        return dict(self.model_extra or {})


class SparkSettings(_Section):
    """``master`` and further Spark settings of the container's session."""

    master: str | None = None
    memory: str = "2g"
    conf: dict[str, str] = {}


_SECRET = re.compile(r"password|secret|token|credential", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@]*:[^/@]+@")
"""A URL with a password in it."""
_FOR = {"schema_file": ("avro", "protobuf", "confluent"), "message": ("protobuf",), "subject": ("confluent",)}
"""The formats that a setting of a stream is for."""


class Settings(_Section):
    """All settings; ``folder`` is where relative paths start."""

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
            odd = [name for name in ("delivery", "on_data_loss", "topic") if name in each.model_fields_set]
            if system != "kafka" and odd:
                raise ValueError(f"streams.{stream}.{odd[0]} is for streams in Kafka, and {stream} lives in {system}")
            for name, formats in _FOR.items():
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
            raise ValueError('job.autoscale changes the factor, which grouper = "all" has none of')
        return self

    @model_validator(mode="after")
    def _bound_once(self) -> Settings:
        twice = sorted(self.streams.keys() & self.outputs.keys())
        if twice:
            raise ValueError(f"{twice[0]} is both a stream, streams.{twice[0]}, and a table, outputs.{twice[0]}")
        return self

    @property
    def patterns(self) -> dict[str, str]:
        """The inputs that are all streams with a name like this, each with that regular expression."""
        return {stream: each.pattern for stream, each in self.streams.items() if each.pattern is not None}

    @property
    def at_least_once(self) -> frozenset[str]:
        """The streams that jobs write with that delivery."""
        return frozenset(stream for stream, each in self.streams.items() if each.delivery == "at-least-once")

    def is_plain(self, stream: str) -> bool:
        """Whether jobs write a stream in Kafka at least once."""
        return self.job.trigger == "real-time" or stream in self.at_least_once


def load(file: Path | None = None, beside: Path | None = None, over: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings and make their paths absolute.

    Args:
        file: the configuration file itself; must exist.
        beside: a job file; ``anabranch.toml`` in its folder is taken, else the one in the working folder.
        over: sections of settings that win over the file and the environment.

    Raises:
        NotFoundError: ``file`` doesn't exist.
        ConfigError: not TOML, an unknown name (with the nearest known one) or a value that isn't allowed.
    """
    path = _find(file, beside)
    parsed: dict[str, Any] = {}
    if path is not None:
        try:
            parsed = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}", "mend the line it names") from error
    merged = _merge(_merge(parsed, _environment()), dict(over or {}))
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise ConfigError(*_explain(error, path)) from error
    return _absolute(settings, path.parent if path is not None else Path.cwd())


def dumped(settings: Settings) -> dict[str, Any]:
    """What was set, as plain data for :func:`restored`, with absolute paths.

    Raises:
        ConfigError: a secret is written out, where only a reference may be kept.
    """
    kafka, formats = settings.systems.kafka, settings.formats
    secrets = {
        "systems.kafka.sasl_password": kafka.sasl_password,
        "systems.kafka.ssl_key_password": kafka.ssl_key_password,
        "formats.registry_password": formats.registry_password,
        **{f"systems.kafka.client.{name}": text for name, text in kafka.client.items() if "password" in name},
        **{f"systems.kafka.spark.{name}": text for name, text in kafka.spark.items() if "password" in name},
        **{
            f"outputs.{name}.{setting}": text
            for name, output in settings.outputs.items()
            for setting, text in _texts(output.options)
            if _SECRET.search(setting) or _LOGIN.search(text)
        },
    }
    plain = [name for name, text in secrets.items() if text is not None and not has_reference(text)]
    if plain:
        raise ConfigError(
            f"the setting {plain[0]} is written out, and a coordinator keeps settings in its store",
            "write a reference in its place: ${env:NAME} or ${file:PATH}, of the containers' machine",
        )
    return settings.model_dump(mode="json", exclude_unset=True, exclude={"coordinator"})


def restored(dumped: Mapping[str, Any]) -> Settings:
    """The settings that :func:`dumped` has given, overridden by this process's environment. ConfigError as above."""
    try:
        settings = Settings(**_merge(dict(dumped), _environment()))
    except ValidationError as error:
        raise ConfigError(*_explain(error, None)) from error
    return _absolute(settings, Path.cwd())


def _texts(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """All texts of nested settings, by their names."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _texts(value, f"{before}{name}.")
        elif isinstance(value, str):
            yield f"{before}{name}", value


def _find(file: Path | None, beside: Path | None) -> Path | None:
    if file is not None:
        if not file.is_file():
            raise NotFoundError(f"there is no configuration file {file}", "name an existing one with --config")
        return file.resolve()
    for folder in ([beside.parent] if beside is not None else []) + [Path.cwd()]:
        if (folder / FILE_NAME).is_file():
            return (folder / FILE_NAME).resolve()
    return None


def _environment() -> dict[str, Any]:
    names = [name for name in os.environ if name.startswith(PREFIX)]
    for name in names:
        section = name.removeprefix(PREFIX).split("__")[0].lower()
        if section not in Settings.model_fields:
            raise ConfigError(
                f"the environment variable {name} sets an unknown section {section!r}",
                _nearest(section, Settings.model_fields),
            )
    if not names:
        return {}
    from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

    class OfEnvironment(BaseSettings, Settings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", case_sensitive=False)

    try:
        return EnvSettingsSource(OfEnvironment)()
    except SettingsError as error:
        raise ConfigError(
            f"the environment has a section that is no JSON object: {error}",
            f"set one setting at a time, as in {PREFIX}JOB__FACTOR=4",
        ) from error


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        held = merged.get(name)
        merged[name] = _merge(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return merged


def _absolute(settings: Settings, folder: Path) -> Settings:
    root, store = settings.storage.root, settings.coordinator.store
    if "://" not in root and not root.startswith("file:"):
        root = str((folder / Path(root).expanduser()).resolve())
    if store.startswith("sqlite:///") and not store.startswith("sqlite:////"):
        store = f"sqlite:///{(folder / store.removeprefix('sqlite:///')).resolve()}"
    logs = settings.coordinator.logs
    if logs is None:
        is_file = store.startswith("sqlite:////")
        logs = (Path(store.removeprefix("sqlite:///")).parent if is_file else Path(".anabranch")) / "containers"
    embedded = (folder / settings.systems.embedded.root.expanduser()).resolve()
    return settings.model_copy(
        update={
            "storage": settings.storage.model_copy(update={"root": root}),
            "coordinator": settings.coordinator.model_copy(
                update={"store": store, "logs": (folder / logs.expanduser()).resolve()}
            ),
            "systems": settings.systems.model_copy(
                update={
                    "embedded": EmbeddedSettings(root=embedded),
                    "kafka": _with_paths(
                        settings.systems.kafka, folder, "ssl_ca", "ssl_certificate", "ssl_key", "jars"
                    ),
                }
            ),
            "formats": _with_paths(settings.formats, folder, "jars"),
            "streams": {name: _with_paths(each, folder, "schema_file") for name, each in settings.streams.items()},
            "outputs": {name: _with_table_path(each, folder) for name, each in settings.outputs.items()},
        }
    )


def _with_paths(section: S, folder: Path, *names: str) -> S:
    paths = {name: getattr(section, name) for name in names}
    given = {name: path for name, path in paths.items() if path is not None and "${" not in str(path)}
    return section.model_copy(update={name: (folder / path.expanduser()).resolve() for name, path in given.items()})


def _with_table_path(output: OutputSettings, folder: Path) -> OutputSettings:
    path = output.options.get("path")
    if not isinstance(path, str) or "://" in path or "${" in path:
        return output
    return OutputSettings(**{**output.model_dump(), "path": str((folder / Path(path).expanduser()).resolve())})


def _explain(error: ValidationError, path: Path | None) -> tuple[str, str]:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    where = f"{path}: " if path is not None else ""
    setting = ".".join(location)
    if first["type"] == "extra_forbidden":
        return f"{where}unknown setting {setting!r}", _nearest(location[-1], _known_names(location[:-1]))
    why = first["msg"].removeprefix("Value error, ")
    if not location:
        return f"{where}{why}", "take one of the two out"
    return f"{where}setting {setting!r} has the value {first.get('input')!r}: {why}", "set an allowed value"


def _known_names(location: list[str]) -> Iterator[str]:
    model: Any = Settings
    for part in location:
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        model = field.annotation if field is not None else StreamSettings
        model = next((each for each in get_args(model) if each is AutoscaleSettings), model)
        if model == dict[str, StreamSettings]:
            model = StreamSettings
    return iter(model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else ())


def _nearest(name: str, known: Any) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(names)}"
