"""A store in PostgreSQL: it outlives restarts and frozen servers, says what is wrong, and shows no secret."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
import sqlalchemy as sa

from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Store, address, postgresql, tables
from anabranch.errors import AnabranchError, ConfigError, StoreUnavailableError
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.container import Registration
from tests.support import postgres
from tests.support.postgres import PASSWORD, Server
from tests.unit.coordinator.helpers import FIRST, SECOND
from tests.unit.coordinator.store.helpers import event, filled, raw

WHO = Registration(job="delays", seat="0", execution="x", host="h", pid=1)
OPEN_AND_CLAIM = """
import sys
from anabranch.coordinator.store import Store
print("ready", flush=True)
sys.stdin.readline()
print(Store(sys.argv[1]).claim(None, sys.argv[2]))
"""


@pytest.fixture
def url(postgresql_url: str) -> str:
    return postgresql_url


def running(lanes: dict[str, Lane], between: Callable[[], object]) -> Iterator[Lane]:
    """Both lanes; ``between`` happens after the first is written, in the middle of the transaction."""
    yield msgspec.structs.replace(lanes[FIRST], state=LaneState.RUNNING)
    between()
    yield msgspec.structs.replace(lanes[SECOND], state=LaneState.RUNNING)


def states(store: Store) -> list[LaneState]:
    return [lane.state for lane in store.lanes("delays").values()]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_between_writes_is_an_error_while_it_lasts(postgres_server: Server, url: str, how: int) -> None:
    store = filled(Store(url))
    postgres_server.stop(signal.Signals(how))
    try:
        for call in (store.jobs, lambda: store.put_lanes([], [event()]), lambda: Store(url)):
            # Refused, or closed where the kernel still has an old connection from the same port to the server's.
            with pytest.raises(StoreUnavailableError, match=r"can't be reached.*(refused|closed)") as caught:
                call()
            assert "PostgreSQL runs" in caught.value.cure
    finally:
        postgres_server.start()
    assert store.jobs() == ["delays"]
    assert store.register(WHO, "0", [], 1.0)[0].epoch == 1


def test_a_restart_that_nobody_noticed_is_no_error(postgres_server: Server, url: str) -> None:
    store = filled(Store(url))
    postgres_server.stop()
    postgres_server.start()
    store.put_lanes([], [event("after")])
    assert [one.what for one in store.events("delays", 9)] == ["planned", "after"]


def test_a_crash_in_the_middle_of_a_write_leaves_nothing_of_it(postgres_server: Server, url: str) -> None:
    store = filled(Store(url))

    def crash() -> None:
        postgres_server.stop(signal.SIGQUIT)
        postgres_server.start()

    lanes = store.lanes("delays")
    with pytest.raises(StoreUnavailableError, match="lost"):
        store.put_lanes(running(lanes, crash), [event("both run")])
    assert states(store) == [LaneState.PLANNED] * 2
    store.put_lanes(running(lanes, lambda: None), [event("both run")])
    assert states(store) == [LaneState.RUNNING] * 2
    assert [one.what for one in store.events("delays", 9)] == ["planned", "both run"]


def test_sessions_on_a_server_that_takes_no_writes_are_given_up(postgres_server: Server, url: str) -> None:
    filled(Store(url)).close()
    with postgres_server.read_only(url):
        store = Store(f"{url}?target_session_attrs=any")
        with pytest.raises(StoreUnavailableError, match=r"can only be read now: cannot execute") as caught:
            store.note([event()])
        assert "not a standby" in caught.value.cure
        assert store.jobs() == ["delays"]  # in a new session, which can't write, either
    with pytest.raises(StoreUnavailableError, match="can only be read now"):
        store.note([event()])
    store.note([event("after")])
    assert [one.what for one in store.events("delays", 9)] == ["planned", "after"]


def test_a_new_session_is_refused_where_it_could_not_write(postgres_server: Server, url: str) -> None:
    filled(Store(url)).close()
    with postgres_server.read_only(url):
        with pytest.raises(StoreUnavailableError, match=r"can only be read now: .*read-only"):
            Store(url)
        assert Store.open_existing(f"{url}?target_session_attrs=any").jobs() == ["delays"]
    assert Store(url).jobs() == ["delays"]


def test_of_several_servers_the_one_that_takes_writes_is_found(postgres_server: Server, url: str) -> None:
    filled(Store(url)).close()
    login, _, name = url.rpartition("/")
    with postgres.serving() as standby:
        with standby.admin() as admin:
            admin.execute(f"create database {name} owner {postgres.USER}".encode())
        hosts = "&".join(f"host=127.0.0.1:{each.port}" for each in (standby, postgres_server))
        with standby.read_only(url):
            store = Store(f"{login.rpartition('@')[0]}@/{name}?{hosts}")
            store.note([event("written")])
            postgres_server.stop()
            try:
                with pytest.raises(StoreUnavailableError, match=r"can only be read now: .*read-only"):
                    store.jobs()
            finally:
                postgres_server.start()
            assert [one.what for one in store.events("delays", 9)] == ["planned", "written"]


def test_a_standby_does_not_hide_why_the_server_that_takes_writes_refuses(postgres_server: Server, url: str) -> None:
    filled(Store(url)).close()
    login, _, name = url.rpartition("/")
    with postgres.serving() as standby:
        with standby.admin() as admin:
            admin.execute(f"create database {name} owner {postgres.USER}".encode())
        both = (postgres_server.port, standby.port)
        with standby.read_only(url), postgres_server.admin() as admin:
            for ports in (both, both[::-1]):
                hosts = "&".join(f"host=127.0.0.1:{port}" for port in ports)
                several = f"{login.rpartition('@')[0]}@/{name}?{hosts}"
                admin.execute(f"alter database {name} connection limit 0".encode())
                with pytest.raises(StoreUnavailableError, match=r"takes no more connections: .*too many connections"):
                    Store(several)
                admin.execute(f"alter database {name} connection limit -1".encode())
                admin.execute(f"alter role {postgres.USER} rename to renamed".encode())
                try:
                    with pytest.raises(ConfigError, match=r"doesn't accept the login: .*failed for user"):
                        Store(several)
                finally:
                    admin.execute(f"alter role renamed rename to {postgres.USER}".encode())
                    admin.execute(f"alter role {postgres.USER} password '{PASSWORD}'".encode())
                assert Store(several).jobs() == ["delays"]


def test_crashes_under_load_lose_no_write_that_was_answered(postgres_server: Server, url: str) -> None:
    store = filled(Store(url))
    answered: list[int] = []
    failed: list[Exception] = []
    told = threading.Condition()
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            try:
                epoch = store.register(WHO, "0", [], 1.0)[0].epoch
            except StoreUnavailableError:
                continue
            except Exception as error:
                failed.append(error)
                return
            with told:
                answered.append(epoch)
                told.notify_all()

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with told:
                before = len(answered)
                assert told.wait_for(lambda: failed or len(answered) >= before + 10, timeout=60)  # noqa: B023
            postgres_server.stop(signal.SIGQUIT)
            postgres_server.start()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failed == []
    with raw(url) as connection:
        epochs = sorted(connection.execute(sa.select(tables.containers.c.epoch)).scalars())
        last = connection.execute(sa.select(tables.jobs.c.epoch)).scalar_one()
        held = connection.execute(sa.select(tables.containers.c.epoch).where(tables.containers.c.gone.is_(None)))
        assert list(held.scalars()) == [last]
    assert epochs == list(range(1, last + 1))
    assert set(answered) <= set(epochs)
    assert len(answered) == len(set(answered))
    assert [one.who for one in store.events("delays", 10_000)[1:]] == [f"delays:0:{epoch}" for epoch in epochs]


def test_a_server_that_freezes_holds_up_a_call_for_a_while_only(
    postgres_server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(Store(url))
    with postgres_server.admin() as admin:
        query = "select pid from pg_stat_activity where application_name = 'anabranch' and datname = %s"
        (pid,) = admin.execute(query, [url.rpartition("/")[2]]).fetchone() or (0,)

        def freeze() -> None:
            os.kill(pid, signal.SIGSTOP)
            monkeypatch.setattr(postgresql, "ANSWERS_WITHIN", 0.3)

        try:
            with pytest.raises(StoreUnavailableError, match=r"no answer within 0\.3 s"):
                store.put_lanes(running(store.lanes("delays"), freeze), [])
            monkeypatch.undo()
            assert states(store) == [LaneState.PLANNED] * 2
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_migration_may_take_longer_than_other_calls(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = postgresql.engine(address.Address(url))
    try:
        with engine.connect() as connection:
            monkeypatch.setattr(postgresql, "ANSWERS_WITHIN", 0.3)
            with connection.begin():
                postgresql.lock_for_schema(connection, "here")
                connection.exec_driver_sql("SELECT pg_sleep(1)")
            with pytest.raises(sa.exc.OperationalError, match=r"no answer within 0\.3 s"):
                connection.exec_driver_sql("SELECT pg_sleep(1)")
    finally:
        engine.dispose()


def test_a_leader_that_freezes_while_it_writes_holds_up_no_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = filled(Store(url))
    monkeypatch.setitem(postgresql.LIMITS, "idle_in_transaction_session_timeout", "700ms")
    store = Store(url)
    assert store.claim(None, "http://a")
    seen = other.leader()

    def taken_over() -> None:
        assert other.claim(seen, "http://b")

    with pytest.raises(StoreUnavailableError, match="idle-in-transaction"):
        store.put_lanes(running(store.lanes("delays"), taken_over), [event("both run")])
    assert states(other) == [LaneState.PLANNED] * 2


def test_of_processes_that_open_an_empty_database_at_once_one_leads(url: str) -> None:
    command = [sys.executable, "-c", OPEN_AND_CLAIM, url]
    processes = [
        subprocess.Popen([*command, f"http://{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0] for process in processes) == ["False\n"] * 2 + ["True\n"]


def test_stores_that_are_made_at_once_are_made_once(url: str) -> None:
    barrier = threading.Barrier(6)
    failed: list[Exception] = []

    def make() -> None:
        barrier.wait()
        try:
            Store(url).close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with raw(url) as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(tables.meta)).scalar_one() == 1


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda url: url.replace(PASSWORD, "wr0ng-one"), ConfigError, "doesn't accept the login"),
        (lambda url: url.replace(f":{PASSWORD}", ""), ConfigError, "wants a password"),
        (lambda url: f"{url}nowhere", ConfigError, "no such database"),
        (lambda url: url.rpartition("/")[0], ConfigError, "names no database"),
        (lambda url: url.replace("127.0.0.1", "127.0.0.1.nowhere.invalid"), StoreUnavailableError, "can't be reached"),
        (lambda url: f"{url}?nonsense=1", ConfigError, "can't be reached with these options"),
        (lambda url: f"{url}?connect_timeout=soon", ConfigError, "can't be reached with these options"),
        (lambda url: f"{url}?password=wr0ng-one", ConfigError, "doesn't accept the login"),
        (lambda url: url.replace("@", "@@"), ConfigError, "has an @ in its password"),
        (lambda url: url.replace("/store", "x/store"), ConfigError, "is not a database URL"),
        (lambda url: url.replace("postgresql:", "postgresql+asyncpg:"), ConfigError, r"can't live in 'postgresql\+as"),
        (lambda url: f"{url}?options=-cdefault_transaction_read_only%3Don", StoreUnavailableError, "can only be read"),
    ],
)
def test_what_can_t_be_reached_says_why_and_shows_no_password(
    url: str, change: Callable[[str], str], kind: type[AnabranchError], says: str
) -> None:
    with pytest.raises(kind, match=says) as caught:
        Store(change(url))
    assert caught.value.cure
    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert "wr0ng-one" not in shown


def test_a_server_without_a_free_connection_is_told_apart_from_one_that_is_away(
    postgres_server: Server, url: str
) -> None:
    def refused() -> StoreUnavailableError:
        with pytest.raises(StoreUnavailableError, match="takes no more connections: ") as caught:
            Store(url)
        return caught.value

    with contextlib.ExitStack() as held:
        with contextlib.suppress(psycopg.OperationalError):
            for _ in range(1000):
                held.enter_context(psycopg.connect(url))
        assert "max_connections" in refused().cure
    with postgres_server.admin() as admin:
        admin.execute(f"alter database {url.rpartition('/')[2]} connection limit 0")
        refused()
        admin.execute(f"alter database {url.rpartition('/')[2]} connection limit -1")
    assert Store(url).jobs() == []


def test_a_user_without_rights_is_told_which(postgres_server: Server, url: str) -> None:
    with postgres_server.admin(url.rpartition("/")[2]) as admin:
        admin.execute("revoke create on schema public from public")
        admin.execute(f"alter database {url.rpartition('/')[2]} owner to postgres")
    with pytest.raises(ConfigError, match=r"can't be read or written: permission denied") as caught:
        Store(url)
    assert "grant" in caught.value.cure


def test_a_right_that_is_taken_away_from_a_running_coordinator_is_waited_for(postgres_server: Server, url: str) -> None:
    store = filled(Store(url))
    with postgres_server.admin(url.rpartition("/")[2]) as admin:
        admin.execute("alter table events owner to postgres")
        with pytest.raises(StoreUnavailableError, match=r"can't be read or written: permission denied"):
            store.events("delays", 9)
        admin.execute(f"alter table events owner to {postgres.USER}")
    assert store.events("delays", 9)


def test_references_are_resolved_for_each_connection_and_never_shown(
    postgres_server: Server, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    by_name = url.replace(f"anabranch:{PASSWORD}", "${env:STORE_USER}:${env:STORE_PASSWORD}")
    monkeypatch.setenv("STORE_USER", "anabranch")
    monkeypatch.delenv("STORE_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match=r"\[coordinator\] store refers to .*'STORE_PASSWORD', which isn't set"):
        Store(by_name)
    monkeypatch.setenv("STORE_PASSWORD", "wr0ng-one")
    with pytest.raises(ConfigError) as caught:
        Store(by_name)
    assert "wr0ng-one" not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("STORE_PASSWORD", PASSWORD)
    store = filled(Store(by_name))
    assert store.url == url.replace(f"anabranch:{PASSWORD}", "${env:STORE_USER}:***")
    assert PASSWORD not in repr(vars(store))
    postgres_server.stop()
    postgres_server.start()
    monkeypatch.setenv("STORE_PASSWORD", "rotated away")
    with pytest.raises(StoreUnavailableError, match="doesn't accept the login"):  # so a running job waits
        store.jobs()
    monkeypatch.delenv("STORE_PASSWORD")
    with pytest.raises(StoreUnavailableError, match="STORE_PASSWORD'"):
        store.jobs()
    monkeypatch.setenv("STORE_PASSWORD", PASSWORD)
    assert store.jobs() == ["delays"]
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    assert Store(url.replace(PASSWORD, f"${{file:{tmp_path}/password}}")).jobs() == ["delays"]
    assert address.shown(f"{url}?sslpassword=hush&password=hush").endswith("/" + url.rpartition("/")[2])


def test_run_keeps_its_store_in_a_file(url: str) -> None:
    for call in (endpoint.run_folder, endpoint.find):
        with pytest.raises(ConfigError, match="anabranch run keeps its store in SQLite") as caught:
            call(url)
        assert "anabranch coordinator" in caught.value.cure
        assert PASSWORD not in str(caught.value)
