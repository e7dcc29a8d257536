"""The store: what is written is there again, and what can't be opened is refused in words."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from anabranch.coordinator import plans
from anabranch.coordinator.store import Event, Store, database
from anabranch.errors import ConfigError, ConflictError, NotFoundError, UnsupportedFormatError
from anabranch.messages import Registration
from anabranch.model.lane import LaneState
from tests.unit.coordinator_helpers import FIRST, SECOND, plan


def event(what: str = "planned") -> Event:
    return Event(job="delays", at=5.0, who="user", what=what)


def filled(store: Store) -> Store:
    store.create_deployment(plans.numbered(plan(), 1), "planned", event())
    return store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/deep/er/coordinator.db"


def test_what_is_written_is_there_in_another_process_s_store(url: str) -> None:
    filled(Store(url)).close()
    store = Store.open_existing(url)
    start = plans.numbered(plan(), 1)
    found = store.deployment("delays")
    assert found is not None
    assert (found.id, found.state, found.generation) == (1, "planned", 1)
    assert found.fingerprint == start.fingerprint
    assert found.promises == {"late": "exactly once"}
    assert store.graph("delays", 1) == start.graph
    assert store.model("delays", 1, 1) == start.model
    assert list(store.lanes("delays").values()) == list(start.lanes)  # in the order of the plan
    assert store.events("delays", 10) == [event()]
    assert store.jobs() == ["delays"]


def test_fields_that_a_lane_got_from_a_newer_version_are_kept(url: str) -> None:
    store = filled(Store(url))
    with sqlite3.connect(database.path_of(url) or "") as raw:
        raw.execute("""update lanes set record = json_set(record, '$.later', 7) where id = ?""", (FIRST,))
    lane = store.lanes("delays")[FIRST]
    store.put_lanes([msgspec.structs.replace(lane, state=LaneState.RUNNING)], [])
    again = store.lanes("delays")[FIRST]
    assert (again.state, again.extra) == (LaneState.RUNNING, {"later": 7})


def test_epochs_of_a_job_rise_across_seats_and_openings(url: str) -> None:
    who = Registration(job="delays", seat="0", execution="x", host="h", pid=1)
    store = filled(Store(url))
    first, lanes = store.register(who, list(store.lanes("delays").values()), 1.0)
    assert [lane.epoch for lane in lanes] == [first.epoch] * 2
    store.close()
    store = Store(url)
    second, _ = store.register(msgspec.structs.replace(who, seat="1"), [], 2.0)
    third, _ = store.register(who, [], 3.0)
    assert first.epoch < second.epoch < third.epoch
    replaced = store.container(first.id)
    assert replaced is not None
    assert third.id in (replaced.gone or "")
    assert [one.id for one in store.containers("delays")] == [third.id, second.id]


def test_a_step_that_breaks_leaves_nothing_of_itself(url: str) -> None:
    store = filled(Store(url))
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        unwrapped(lambda: store.create_deployment(plans.numbered(plan(), 2), "planned", event("again")))
    assert store.events("delays", 10) == [event()]
    found = store.deployment("delays")
    assert found is not None
    assert found.id == 1


def unwrapped(call: object) -> None:
    try:
        call()  # type: ignore[operator]
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, sqlite3.Error):
            cause = cause.__cause__
        raise cause or error from None


def test_a_store_in_memory_is_one_for_all_threads() -> None:
    store = filled(Store("sqlite://"))
    seen: list[list[str]] = []
    threads = [threading.Thread(target=lambda: seen.append(store.jobs())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [["delays"]] * 4


def test_threads_write_side_by_side(url: str) -> None:
    store = filled(Store(url))
    who = Registration(job="delays", seat="0", execution="x", host="h", pid=1)
    epochs: list[int] = []
    threads = [threading.Thread(target=lambda: epochs.append(store.register(who, [], 1.0)[0].epoch)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == list(range(1, 9))


def test_looking_creates_nothing(tmp_path: Path, url: str) -> None:
    with pytest.raises(NotFoundError, match=r"no store at .*coordinator\.db"):
        Store.open_existing(url)
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotFoundError):
        Store.open_existing(f"sqlite:///{tmp_path}/empty.db")
    with pytest.raises(NotFoundError):
        Store.open_existing("sqlite://")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_version_from_the_future_is_refused_and_left_as_it_is(url: str) -> None:
    filled(Store(url)).close()
    path = database.path_of(url)
    assert path is not None
    with sqlite3.connect(path) as raw:
        raw.execute("update meta set value = '3' where key = 'format'")
    raw.close()
    before = path.read_bytes()
    for opening in (Store, Store.open_existing):
        with pytest.raises(UnsupportedFormatError, match="format version 3; this anabranch knows 2"):
            opening(url)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_another_program_s_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as raw:
        raw.execute("create table songs (title)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"other\.db is a database of something else.*songs"):
        Store(f"sqlite:///{path}")
    assert path.read_bytes() == before


def not_a_database(folder: Path) -> str:
    (folder / "notes.txt").write_text("shopping list: milk, bread, a stream processor\n" * 100)
    return f"sqlite:///{folder}/notes.txt"


def below_a_file(folder: Path) -> str:
    (folder / "file").touch()
    return f"sqlite:///{folder}/file/deep/coordinator.db"


def a_folder(folder: Path) -> str:
    return f"sqlite:///{folder}"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (not_a_database, r"notes\.txt can't be read as a store: file is not a database"),
        (below_a_file, r"folder .*file/deep of the store can't be made: Not a directory"),
        (a_folder, r"can't be opened or written: unable to open database file"),
        (lambda _: "postgresql://host/db", "can't live in 'postgresql' yet"),
        (lambda _: "coordinator.db", "'coordinator.db' is not a database URL"),
    ],
)
def test_what_can_t_be_a_store_is_a_setting_to_change(place: object, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Store(place(tmp_path))  # type: ignore[operator]
    assert caught.value.cure


def test_a_locked_store_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    store = filled(Store(url))
    holder = sqlite3.connect(database.path_of(url) or "", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConflictError, match=r"coordinator\.db is locked"):
        store.put_lanes([store.lanes("delays")[SECOND]], [])
    assert list(store.lanes("delays")) == [FIRST, SECOND]  # reading goes on
    holder.close()
    store.put_lanes([store.lanes("delays")[SECOND]], [])


def test_the_coordinator_needs_no_spark() -> None:
    code = (
        "import sys\nfrom anabranch.coordinator import client, endpoint, http\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'anabranch.spark'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
