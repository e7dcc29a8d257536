"""The store's tables. Documents are stored as JSON text; values that queries search for have their own columns."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator

from anabranch.coordinator.store.address import encodable

FORMAT_VERSION = 5

metadata = MetaData()


class FreeText(TypeDecorator[str]):
    """Text from users, containers or the system. NUL is replaced, because PostgreSQL can't store it. Bytes that
    aren't valid UTF-8, which can occur in file names, are replaced, too.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else encodable(value).replace("\0", "\N{REPLACEMENT CHARACTER}")


leader = Table(
    "leader",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1: the table has one row
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("beat", BigInteger, nullable=False),  # -1: resigned
)

meta = Table(
    "meta",
    metadata,
    Column("key", String(100), primary_key=True),  # "format", or an upload of code: see uploads.py
    Column("value", Text, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)

deployments = Table(
    "deployments",
    metadata,
    Column("job", ForeignKey("jobs.name"), nullable=False),
    Column("id", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("graph", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("promises", Text, nullable=False),
    Column("formats", Text, nullable=False),
    Column("program", Text),  # what other processes need to run the deployment's lanes, or to close them
    Column("until_caught_up", Boolean, nullable=False),
    Column("drain", Text),  # the drain that is under way
    Column("error", FreeText),
    Column("created_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    PrimaryKeyConstraint("job", "id"),
)

models = Table(
    "models",
    metadata,
    Column("job", String(100), nullable=False),
    Column("deployment", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("job", "deployment", "generation"),
    ForeignKeyConstraint(["job", "deployment"], ["deployments.job", "deployments.id"]),
)

lanes = Table(
    "lanes",
    metadata,
    Column("job", String(100), nullable=False),
    Column("id", String(200), nullable=False),
    Column("deployment", Integer, nullable=False),
    Column("generation", Integer, nullable=False),  # the generation in which the lane was planned
    Column("place", Integer, nullable=False),  # the place in the order in which that generation's lanes were planned
    Column("state", String(20), nullable=False),
    Column("record", Text, nullable=False),
    PrimaryKeyConstraint("job", "id"),
    ForeignKeyConstraint(["job", "deployment"], ["deployments.job", "deployments.id"]),
    Index("lanes_of_a_deployment", "job", "deployment"),
)

containers = Table(
    "containers",
    metadata,
    Column("id", String(240), primary_key=True),
    Column("job", ForeignKey("jobs.name"), nullable=False),
    Column("seat", String(100), nullable=False),
    Column("deployment", Integer, nullable=False),  # the deployment whose code the process has
    Column("epoch", BigInteger, nullable=False),
    Column("execution", FreeText, nullable=False),
    Column("host", FreeText, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("instance", Text, nullable=False),
    Column("rack", FreeText),
    Column("registered_at", Float, nullable=False),
    Column("gone", FreeText),  # why the process no longer holds its seat
    Index("containers_of_a_job", "job", "epoch", unique=True),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("job", ForeignKey("jobs.name"), nullable=False),
    Column("at", Float, nullable=False),
    Column("who", FreeText, nullable=False),
    Column("what", FreeText, nullable=False),
    Column("why", FreeText, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("lane", Text, nullable=False),  # empty: the event isn't about a lane
    Column("container", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("mark", String(20)),  # what happened to the lane
    Column("change", Text),  # what the event says about a change
    Index("events_of_a_job", "job", "id"),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
