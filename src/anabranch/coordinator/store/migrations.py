"""Migrates stores of older versions of anabranch to the current format, in numbered steps.

Each step is written for the tables and documents of its time, and is never changed later. If a step's transaction isn't
committed, the step runs again later.

Alembic isn't used, for three reasons. Steps rewrite JSON documents, which requires Python in any case. Older programs
look for the version in ``meta``. And steps must run under the same lock and in the same kind of transaction as the
creation of a store.

To add a step: raise ``FORMAT_VERSION`` in ``tables``, write the step, add it to ``STEPS``, and add a dump of a store in
the previous format to the tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from anabranch.coordinator.store import event_texts
from anabranch.errors import UnsupportedFormatError

__all__ = ["STEPS", "migrate"]

Record = dict[str, Any]

_LANES_AT_ONCE = 1000
_EVENTS_AT_ONCE = 10_000
_EVENTS = sa.text("SELECT id, who, what, why FROM events WHERE id > :last ORDER BY id LIMIT :limit")


def migrate(connection: sa.Connection, found: int, wanted: int) -> None:
    """Migrate a store from format ``found`` to format ``wanted``, in the transaction of ``connection``.

    A coordinator that leads with an older program loses the lead. It can't write any more, because its writes are
    conditional on its epoch.
    """
    # The format is written before the leader, because a claim reads the format before it writes the leader.
    connection.execute(sa.text("UPDATE meta SET value = :version WHERE key = 'format'"), {"version": str(wanted)})
    for version in range(found, wanted):
        STEPS[version](connection)
    if "leader" in _tables(connection):
        connection.execute(sa.text("UPDATE leader SET epoch = epoch + 1, beat = -1"))


def _to_2(connection: sa.Connection) -> None:
    """Migrate from format 1: deployments store the formats of their streams. Streams without an entry contain JSON."""
    _add_column(connection, "deployments", "formats", "TEXT", default="{}")


def _to_3(connection: sa.Connection) -> None:
    """Migrate from format 2: several coordinators can use a store, and one of them leads."""
    sa.Table(
        "leader",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
    ).create(connection)


def _to_4(connection: sa.Connection) -> None:
    """Migrate from format 3: deployments have drains, and containers record which deployment's code they have.

    There were three versions of the tables in format 3: the first lacks programs, artifacts and the instances of
    processes, the second lacks only the instances, and the third lacks none of these. This step adds what is missing,
    and the fields that lanes have in format 4.
    """
    if "artifacts" not in _tables(connection):
        sa.Table(
            "artifacts",
            sa.MetaData(),
            sa.Column("sha256", sa.String(64), primary_key=True),
            sa.Column("content", sa.LargeBinary, nullable=False),
        ).create(connection)
    _add_column(connection, "deployments", "program", "TEXT")
    _add_column(connection, "deployments", "drain", "TEXT")
    _add_column(connection, "containers", "instance", "TEXT", default="")
    if _add_column(connection, "containers", "deployment", "INTEGER", default=0):
        last_before = (
            "SELECT max(id) FROM deployments WHERE deployments.job = containers.job "
            "AND deployments.created_at <= containers.registered_at"
        )
        first = "SELECT min(id) FROM deployments WHERE deployments.job = containers.job"
        connection.execute(sa.text(f"UPDATE containers SET deployment = coalesce(({last_before}), ({first}), 0)"))
    for (job, deployment), generations in _models(connection).items():
        aggregations = _aggregations(connection, job, deployment)
        for lane, generation, record in _lanes(connection, job, deployment):
            try:
                changed = _lane_of_4(record, generations[generation], aggregations)
            except (LookupError, TypeError, StopIteration) as error:
                raise UnsupportedFormatError(
                    f"the record of lane {lane} of job {job!r} can't be migrated: {type(error).__name__}: {error}",
                    "restore the store from a backup; nothing was changed",
                ) from error
            _write_lane(connection, job, lane, changed)


def _to_5(connection: sa.Connection) -> None:
    """Migrate from format 4: events have a kind and a subject, which were previously only implied by the texts."""
    if not _add_column(connection, "events", "kind", "VARCHAR(20)", default="other"):
        return
    _add_column(connection, "events", "lane", "TEXT", default="")
    _add_column(connection, "events", "container", "TEXT", default="")
    _add_column(connection, "events", "generation", "INTEGER", default=0)
    _add_column(connection, "events", "mark", "VARCHAR(20)")
    _add_column(connection, "events", "change", "TEXT")
    named = ("kind", "lane", "container", "generation", "mark", "change")
    update = sa.text(f"UPDATE events SET {', '.join(f'{name} = :{name}' for name in named)} WHERE id = :id")
    last = 0
    while rows := connection.execute(_EVENTS, {"last": last, "limit": _EVENTS_AT_ONCE}).all():
        connection.execute(update, [{"id": row[0], **event_texts.fields_of(*row[1:])} for row in rows])
        last = rows[-1][0]


STEPS: Mapping[int, Callable[[sa.Connection], None]] = {1: _to_2, 2: _to_3, 3: _to_4, 4: _to_5}
"""For each older format, the step that migrates a store to the next format."""


def _lane_of_4(lane: Record, model: Record, aggregations: set[str]) -> Record:
    """A stored lane with the fields that format 4 added. They are derived from the lane's other fields, from the job
    model of the lane's generation, and from the names of the deployment's stateful operators, ``aggregations``.
    """
    factor = model["factor"]
    stage = next(each for each in model["stages"] if each["stage"] == lane["stage"])
    tasks = [task for task in stage["tasks"] if task["name"] in lane["tasks"]]
    numbers = {_whole(ssp): task["index"] // factor for task in tasks for ssp in task["ssps"]}
    virtual: dict[int, list[int]] = {}
    for task in tasks:
        virtual.setdefault(task["index"] // factor, []).append(task["index"] % factor)
    parts = {str(number): sorted(its) for number, its in sorted(virtual.items()) if len(its) < factor}
    aside = [slot.partition(":")[0] for slot in lane["slots"] if ":" in slot]
    known: Record = {
        "stateful": lane["group"] in aggregations,
        "factor": factor,
        "numbers": {text: numbers[text] for text in dict.fromkeys(map(_whole, lane["ssps"]))},
        "bases": sorted(virtual),
        "buckets": parts if lane.get("broadcast") else {},
        "rejecting": list(dict.fromkeys(aside)),
        # A lane that ever had a process may have written something.
        "begun": bool(lane.get("ran") or lane["epoch"] or lane["folderEpoch"]),
    }
    return {**known, **lane}


def _whole(ssp: Record) -> str:
    return f"{ssp['system']}/{ssp['stream']}/{ssp['partition']}"


def _aggregations(connection: sa.Connection, job: str, deployment: int) -> set[str]:
    """The stateful operators of a deployment. Up to format 3, only aggregations were stateful."""
    query = sa.text("SELECT graph FROM deployments WHERE job = :job AND id = :id")
    graph = json.loads(connection.execute(query, {"job": job, "id": deployment}).scalar_one())
    return {node["name"] for node in graph["nodes"] if node["kind"] == "agg"}


def _models(connection: sa.Connection) -> dict[tuple[str, int], dict[int, Record]]:
    found: dict[tuple[str, int], dict[int, Record]] = {}
    query = sa.text("SELECT job, deployment, generation, document FROM models")
    for job, deployment, generation, document in connection.execute(query).all():
        found.setdefault((job, deployment), {})[generation] = json.loads(document)
    return found


def _lanes(connection: sa.Connection, job: str, deployment: int) -> Iterator[tuple[str, int, Record]]:
    query = sa.text("SELECT id, generation, record FROM lanes WHERE job = :job AND deployment = :deployment")
    rows = connection.execute(query, {"job": job, "deployment": deployment})
    for part in rows.partitions(_LANES_AT_ONCE):
        for lane, generation, record in part:
            yield lane, generation, json.loads(record)


def _write_lane(connection: sa.Connection, job: str, lane: str, record: Record) -> None:
    connection.execute(
        sa.text("UPDATE lanes SET record = :record WHERE job = :job AND id = :id"),
        {"record": json.dumps(record, ensure_ascii=False, indent=2), "job": job, "id": lane},
    )


def _tables(connection: sa.Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def _add_column(
    connection: sa.Connection, table: str, column: str, kind: str, default: str | int | None = None
) -> bool:
    """Add a column if the table doesn't have it. Returns whether it was added. A column with a default is NOT NULL."""
    if column in {each["name"] for each in sa.inspect(connection).get_columns(table)}:
        return False
    value = repr(default) if isinstance(default, str) else default
    constraint = "" if default is None else f" NOT NULL DEFAULT {value}"
    connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column} {kind}{constraint}"))
    if default is not None and connection.dialect.name == "postgresql":  # SQLite can't drop defaults, and needn't
        connection.execute(sa.text(f"ALTER TABLE {table} ALTER COLUMN {column} DROP DEFAULT"))
    return True
