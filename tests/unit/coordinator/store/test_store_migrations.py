"""A store that an older anabranch wrote: it is migrated as a whole when it may be written, by one process, or read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import sqlalchemy as sa

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, address, tables
from anabranch.errors import ConfigError, NotLeadingError, UnsupportedFormatError
from anabranch.formats import Format
from anabranch.model.lane import LaneState
from anabranch.protocol.container import Registration
from anabranch.views.changes import ChangeKind
from anabranch.views.events import KINDS
from anabranch.views.lane_times import MarkKind
from tests.unit.coordinator.store import old_stores
from tests.unit.coordinator.store.helpers import event, filled, raw

NOW = tables.FORMAT_VERSION
DERIVED = ("stateful", "factor", "numbers", "bases", "buckets")
OLDEST, NEWEST = old_stores.OLDER[0], old_stores.OLDER[-1]
LEADING, EVENTS = "format-3-9a32a78", "events-4-56f4ffe4"


@pytest.fixture(params=old_stores.OLDER)
def old(request: pytest.FixtureRequest, url: str) -> str:
    """The name of an older store, which is at ``url``."""
    old_stores.load(request.param, url)
    name: str = request.param
    return name


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/coordinator.db"


def schema(url: str) -> dict[str, Any]:
    """All that a database says of its tables, but for the order of columns, and defaults, which no query relies on."""
    with raw(url) as connection:
        seen = sa.inspect(connection)
        return {
            table: (
                {each["name"]: (str(each["type"]), each["nullable"]) for each in seen.get_columns(table)},
                seen.get_pk_constraint(table)["constrained_columns"],
                sorted((each["constrained_columns"], each["referred_table"]) for each in seen.get_foreign_keys(table)),
                sorted((each["name"], each["column_names"], each["unique"]) for each in seen.get_indexes(table)),
            )
            for table in seen.get_table_names()
        }


def content(url: str) -> dict[str, list[Any]]:
    """All rows of a database."""
    found = sa.MetaData()
    with raw(url) as connection:
        found.reflect(connection)
        return {table.name: sorted(map(repr, connection.execute(sa.select(table)))) for table in found.tables.values()}


def stored_format(url: str) -> str:
    with raw(url) as connection:
        return connection.execute(sa.select(tables.meta.c.value)).scalar_one()


def test_there_is_an_old_store_of_every_format_before_the_present_one() -> None:
    assert {old_stores.version(name) for name in old_stores.OLDER} == set(range(1, NOW))


@pytest.mark.suite(cases=2)
def test_a_migrated_store_has_the_tables_of_a_new_one(url: str, old: str) -> None:
    Store(url).close()
    migrated = schema(url)
    with raw(url) as connection:
        for table in sa.inspect(connection).get_table_names():
            connection.execute(sa.text(f"DROP TABLE {table}" + " CASCADE" * (connection.dialect.name != "sqlite")))
    Store(url).close()
    assert migrated == schema(url)


@pytest.mark.suite(cases=2)
def test_a_migrated_store_has_all_that_it_had(url: str, old: str) -> None:
    store = Store(url)
    assert stored_format(url) == str(NOW)
    assert store.jobs() == ["delays"]
    found = store.deployment("delays")
    assert found is not None
    assert (found.id, found.state, found.generation, found.created_at) == (1, "stopped", 1, 10.0)
    assert found.fingerprint == {"factor": "2", "grouper": "partition"}
    assert found.formats == ({} if old_stores.version(old) == 1 else {"late-flights": Format(name="string")})
    assert found.drain is None
    assert [node.kind for node in store.graph("delays", 1).nodes][-2:] == ["agg", "write"]
    assert store.model("delays", 1, 1).factor == 2
    assert [(each.what, each.at) for each in store.events("delays", 10)][-1] == ("stopped", 32.0)
    held = store.containers("delays")[-1]
    assert (held.id, held.deployment, held.instance) == ("delays:1:2", 1, "i1" if found_instances(old) else "")
    if found.program is not None:
        assert store.artifact(found.program.artifact) == b"code"
    assert (found.program is None) == (old in (*old_stores.OLDER[:2], "format-3-b00af7d"))


def found_instances(old: str) -> bool:
    """Whether a store has the instances of processes: two of the three that are called format 3 haven't."""
    return old in ("format-3-9a32a78", "format-3-af04a43", "format-4-3111243")


@pytest.mark.suite(cases=2)
def test_lanes_of_a_migrated_store_know_what_newer_ones_were_planned_with(url: str, old: str, tmp_path: Path) -> None:
    newest = f"sqlite:///{tmp_path}/newest.db"
    old_stores.load(NEWEST, newest)
    planned = Store(newest).lanes("delays")
    migrated = Store(url).lanes("delays")
    assert list(migrated) == list(planned)
    for lane, found in migrated.items():
        assert {name: getattr(found, name) for name in DERIVED} == {
            name: getattr(planned[lane], name) for name in DERIVED
        }
        assert found.extra is msgspec.UNSET
        assert found.rejecting == (() if old_stores.version(old) == 1 else planned[lane].rejecting)
        assert found.begun == (old_stores.version(old) < 4), "before, it wasn't stored, and each of them had a process"


@pytest.mark.suite(cases=2)
def test_a_job_of_a_migrated_store_can_go_on(url: str, old: str) -> None:
    store = Store(url)
    lane = next(iter(store.lanes("delays").values()))
    registration = Registration(job="delays", seat="0", execution="e", host="h", pid=7, instance="new", deployment=1)
    process, changed = store.register(registration, "0", [lane], 50.0)
    assert (process.epoch, changed[0].epoch) == (3, 3)
    store.put_lanes([msgspec.structs.replace(changed[0], state=LaneState.RUNNING)], [event()])
    assert Store(url).lanes("delays")[lane.id].state is LaneState.RUNNING
    assert [each.id for each in Store(url).containers("delays")] == ["delays:0:3", "delays:1:2"]


def test_events_that_had_only_their_texts_say_what_they_said(url: str) -> None:
    old_stores.load(EVENTS, url)
    said = json.loads((old_stores.FOLDER / f"{EVENTS}.json").read_text())
    coordinator = Coordinator(Store(url), now=lambda: said["laneTimes"]["at"])
    found = {
        "events": [each.to_builtins() for each in coordinator.events("j", 1000)],
        "changes": [each.to_builtins() for each in coordinator.changes("j", 1000)],
        "laneTimes": coordinator.lane_times("j", said["laneTimes"]["since"], said["laneTimes"]["until"]).to_builtins(),
    }
    assert json.loads(json.dumps(found)) == said
    assert {each["kind"] for each in said["events"]} == set(KINDS)
    assert {mark[2] for mark in said["laneTimes"]["marks"]["rows"]} == {*get_args(MarkKind), "other"}
    assert {each["kind"] for each in said["changes"]} == set(get_args(ChangeKind))


def test_a_lane_that_never_had_a_process_has_not_begun(url: str) -> None:
    old_stores.load(OLDEST, url)
    with raw(url) as connection:
        without = "record = replace(record, '\"epoch\": 2', '\"epoch\": 0')"
        connection.exec_driver_sql(f"UPDATE lanes SET {without}")  # the second seat's, which has no folder
    assert {lane.seat: lane.begun for lane in Store(url).lanes("delays").values()} == {"0": True, "1": False}


def test_a_container_has_the_code_of_the_deployment_before_it(url: str) -> None:
    old_stores.load(LEADING, url)
    with raw(url) as connection:
        connection.exec_driver_sql(
            "INSERT INTO deployments (job, id, state, graph, fingerprint, promises, formats, until_caught_up,"
            " created_at, changed_at) SELECT job, 2, state, graph, fingerprint, promises, formats, until_caught_up,"
            " 20.5, changed_at FROM deployments"
        )
    assert [Store(url).container(f"delays:{seat}").deployment for seat in ("0:1", "1:2")] == [1, 2]  # type: ignore[union-attr]


def test_a_store_is_migrated_once(url: str) -> None:
    old_stores.load(LEADING, url)
    Store(url).close()
    before = content(url)
    Store(url).close()
    Store.open_existing(url, to_write=True).close()
    assert content(url) == before


def test_what_is_no_record_of_a_lane_is_refused_and_all_is_left_as_it_was(url: str) -> None:
    old_stores.load(LEADING, url)
    with raw(url) as connection:
        connection.exec_driver_sql('UPDATE lanes SET record = \'{"stage": "9"}\' WHERE place = 1')
    before = content(url)
    with pytest.raises(UnsupportedFormatError, match=r"lane .* of job 'delays' can't be migrated"):
        Store(url)
    assert content(url) == before


# Who reads only


def test_a_store_in_a_file_is_read_without_being_changed(sqlite_url: str) -> None:
    old_stores.load(OLDEST, sqlite_url)
    path = address.path_of(sqlite_url)
    assert path is not None
    before = path.read_bytes()
    store = Store.open_existing(sqlite_url)
    assert store.jobs() == ["delays"]
    assert len(store.lanes("delays")) == 4
    assert store.leader() is None
    with pytest.raises(ConfigError, match="can't be opened or written"):
        store.note([event()])
    store.close()
    assert path.read_bytes() == before
    assert stored_format(sqlite_url) == "1"


def test_a_store_in_postgresql_that_is_read_says_who_migrates_it(postgresql_url: str) -> None:
    old_stores.load(LEADING, postgresql_url)
    before = content(postgresql_url)
    with pytest.raises(UnsupportedFormatError, match=f"format version 3, and this anabranch writes {NOW}") as caught:
        Store.open_existing(postgresql_url)
    assert "start a coordinator" in caught.value.cure
    assert content(postgresql_url) == before
    Store.open_existing(postgresql_url, to_write=True).close()
    assert Store.open_existing(postgresql_url).jobs() == ["delays"]


# Processes of several versions


def test_migrating_deposes_a_coordinator_that_leads_with_an_older_program(url: str) -> None:
    old_stores.load(LEADING, url)
    older = Store(url)
    assert older.claim(older.leader(), "http://older")
    older.note([event("written by the older")])
    declare(url, str(NOW - 1))
    newer = Store(url)
    with pytest.raises(NotLeadingError):
        older.note([event()])
    leader = newer.leader()
    assert leader is not None
    assert leader.resigned
    assert newer.claim(leader, "http://newer")
    newer.note([event("written by the newer")])


def test_an_older_program_that_has_the_store_open_writes_no_more(url: str) -> None:
    store, other = filled(Store(url)), Store(url)
    declare(url, str(NOW + 1))
    for write in (lambda: store.note([event()]), lambda: store.claim(None, "http://here")):
        with pytest.raises(UnsupportedFormatError, match=f"format version {NOW + 1}; this anabranch knows {NOW}"):
            write()
    assert store.jobs() == ["delays"]
    declare(url, str(NOW - 1))
    with pytest.raises(UnsupportedFormatError, match=f"format version {NOW - 1}, and this anabranch writes {NOW}"):
        other.note([event()])


def declare(url: str, version: str) -> None:
    with raw(url) as connection:
        connection.execute(sa.update(tables.meta).values(value=version))


OPEN = """
import sys, time
from anabranch.coordinator.store import Store, migrations

migrate = migrations.migrate

def slowly(*arguments):
    time.sleep(1)
    migrate(*arguments)

migrations.migrate = slowly
print("ready", flush=True)
sys.stdin.readline()
Store(sys.argv[1]).close()
"""


def test_of_processes_that_open_an_old_store_at_once_one_migrates_it(url: str) -> None:
    old_stores.load(LEADING, url)
    processes = [
        subprocess.Popen([sys.executable, "-c", OPEN, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    assert [process.wait(120) for process in processes] == [0] * 3
    leader = Store.open_existing(url).leader()
    assert leader is not None
    assert leader.epoch == 2, "each migration takes the next epoch"


KILLED = """
import os, signal, sys
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from anabranch.coordinator.store import Store, database, migrations

left = int(sys.argv[2])
inside = [False]
migrate = migrations.migrate

def noted(*arguments):
    inside[0] = True
    migrate(*arguments)

migrations.migrate = noted

@sa.event.listens_for(Engine, sys.argv[3])
def count(*_):
    global left
    left -= inside[0]
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

Store(sys.argv[1]).close()
"""


@pytest.mark.parametrize(
    ("moment", "nth"),
    [("before_cursor_execute", 0), *(("after_cursor_execute", nth) for nth in (0, 2, 5, 9, 14)), ("commit", 0)],
)
@pytest.mark.suite(cases=2)
def test_a_store_whose_migration_was_killed_is_the_old_one_and_is_migrated_later(
    url: str, moment: str, nth: int
) -> None:
    old_stores.load(LEADING, url)
    before = content(url)
    killed = subprocess.run([sys.executable, "-c", KILLED, url, str(nth), moment], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert content(url) == before
    assert len(Store(url).lanes("delays")) == 4
    assert stored_format(url) == str(NOW)
