"""A store in SQLite's file, or in memory: what can't be opened is refused in words, and left as it is."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, address, sqlite
from anabranch.errors import ConfigError, NotFoundError, StoreUnavailableError, UnsupportedFormatError
from anabranch.model.document import compact
from tests.unit.coordinator.helpers import FIRST, SECOND
from tests.unit.coordinator.store.helpers import event, filled


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/deep/er/coordinator.db"


def test_a_store_in_memory_is_one_for_all_threads() -> None:
    store = filled(Store("sqlite://"))
    seen: list[list[str]] = []
    threads = [threading.Thread(target=lambda: seen.append(store.jobs())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [["delays"]] * 4


def test_revisions_do_not_search_all_deployments(url: str) -> None:
    """What is compared lies behind long documents."""
    store = filled(Store(url))
    asked: list[str] = []

    def asking(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", asking)
    try:
        store.revisions()
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", asking)
    (query,) = (each for each in asked if "changed_at" in each)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        steps = [step for *_, step in database.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert [step.split()[1] for step in steps if step.startswith("SCAN")] == ["jobs"]


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


def test_a_store_can_be_below_a_folder_whose_name_is_not_in_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    url = f"sqlite:///{folder}/c.db"
    store = filled(Store(url))
    store.note([event(f"a container started; its log is in {folder}")])
    said = "a container started; its log is in " + str(tmp_path / "caf?")
    assert [each.what for each in store.events("delays", 1)] == [said]
    assert store.url == f"sqlite:///{tmp_path}/caf?/c.db"
    assert compact(Coordinator(store).info())
    store.close()
    assert sorted(path.name for path in folder.iterdir()) == ["c.db"]
    store = Store.open_existing(url)
    assert store.jobs() == ["delays"]
    with pytest.raises(NotFoundError) as caught:
        Store.open_existing(f"sqlite:///{folder}/other.db")
    assert caught.value.what == f"there is no store at {tmp_path}/caf?/other.db"
    store.close()


def test_a_version_from_the_future_is_refused_and_left_as_it_is(url: str) -> None:
    filled(Store(url)).close()
    path = address.path_of(url)
    assert path is not None
    with sqlite3.connect(path) as raw:
        raw.execute("update meta set value = '6' where key = 'format'")
    raw.close()
    before = path.read_bytes()
    for opening in (Store, Store.open_existing):
        with pytest.raises(UnsupportedFormatError, match="format version 6; this anabranch knows 5"):
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
        (lambda _: "mysql://host/db", "can't live in 'mysql', only in sqlite and postgresql"),
        (lambda _: "coordinator.db", "'coordinator.db' is not a database URL"),
    ],
)
def test_what_can_t_be_a_store_is_a_setting_to_change(place: object, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Store(place(tmp_path))  # type: ignore[operator]
    assert caught.value.cure


@given(st.text(st.sampled_from("aB /.:@%2?#&=\\~é\n"), max_size=12))
def test_a_path_is_what_sqlalchemy_says(text: str) -> None:
    expected = sqlalchemy.make_url(f"sqlite:///{text}").database
    assert address.path_of(f"sqlite:///{text}") == (Path(expected) if expected else None)


def test_a_path_has_no_references(tmp_path: Path) -> None:
    assert address.path_of(f"sqlite:///{tmp_path}/${{env:HOME}}/c.db") == tmp_path / "${env:HOME}" / "c.db"


def test_a_locked_store_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    store = filled(Store(url))
    holder = sqlite3.connect(address.path_of(url) or "", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match=r"coordinator\.db is locked"):
        store.put_lanes([store.lanes("delays")[SECOND]], [])
    assert list(store.lanes("delays")) == [FIRST, SECOND]  # reading goes on
    holder.close()
    store.put_lanes([store.lanes("delays")[SECOND]], [])


def test_the_coordinator_needs_no_spark() -> None:
    code = (
        "import sys\nfrom anabranch.coordinator.leadership import endpoint\n"
        "from anabranch.coordinator.api import client, listening\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'anabranch.spark'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def imported(verb: str, names: list[str]) -> str:
    """Those of the modules that a verb imports, as Python writes a list."""
    code = (
        "import sys, typer.main\nfrom anabranch.cli.main import app\n"
        f"assert typer.main.get_command(app).get_command(None, {verb!r}) is not None\n"
        f"print([name for name in {names} if name in sys.modules])"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("verb", ["drain", "events", "fence", "scale", "sizing", "status", "stop", "cancel"])
@pytest.mark.suite(cases=3)
def test_a_verb_that_asks_a_coordinator_needs_no_database(verb: str) -> None:
    slow = [
        "sqlalchemy",
        "psycopg",
        "pyspark",
        "pandas",
        "ortools",
        "structlog",
        "pydantic_settings",
        "anabranch.api.job",
    ]
    assert imported(verb, slow) == "[]\n"


@pytest.mark.parametrize("verb", ["drain", "fence", "scale", "stop", "cancel"])
def test_a_verb_that_draws_nothing_imports_nothing_to_draw_with(verb: str) -> None:
    assert imported(verb, ["rich.console", "pygments"]) == "[]\n"


_KILLED = """
import os, signal, sys
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from anabranch.coordinator.store import Store

left = int(sys.argv[2])

@sa.event.listens_for(Engine, sys.argv[3])
def count(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

Store(sys.argv[1]).close()
"""


@pytest.mark.parametrize(
    ("moment", "nth"),
    [("begin", 0), ("begin", 1), ("after_cursor_execute", 3), ("after_cursor_execute", 12), ("commit", 0)],
)
def test_a_store_whose_maker_was_killed_is_made_once_more(url: str, moment: str, nth: int) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, url, str(nth), moment], check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(NotFoundError):
        Store.open_existing(url)
    assert filled(Store(url)).jobs() == ["delays"]
    assert Store.open_existing(url).jobs() == ["delays"]


def test_what_a_killed_process_had_not_committed_is_gone_and_all_else_is_there(tmp_path: Path, url: str) -> None:
    filled(Store(url)).close()
    code = _KILLED.replace("Store(sys.argv[1]).close()", "Store(sys.argv[1]).put_artifact('half', b'')")
    killed = subprocess.run([sys.executable, "-c", code, url, "0", "commit"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert Path(f"{tmp_path}/deep/er/coordinator.db-wal").exists(), "nothing was being written"
    store = Store(url)
    assert (store.jobs(), store.artifact("half")) == (["delays"], None)
