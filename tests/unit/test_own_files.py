"""What a job keeps on a machine is readable and writable for its own user alone."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import own_files
from anabranch.cli import progress
from anabranch.coordinator.api import token_file
from anabranch.coordinator.launcher.processes import Processes
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Store
from anabranch.systems import folders
from anabranch.systems.embedded.log import Log
from tests.support.permissions import open_to_others


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may look into, as a home or a project often is."""
    made = Path(tempfile.mkdtemp(prefix="anabranch-own-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_nobody_else_reads_a_store_a_token_a_log_a_lane_or_a_stream(place: Path) -> None:
    before = os.umask(0)  # the least careful one
    try:
        url = f"sqlite:///{place}/.anabranch/coordinator.db"
        store = Store(url)
        token_file.made(place / ".anabranch" / "coordinator.db.token")
        endpoint.write(url, "delays", "http://127.0.0.1:1")
        with endpoint.RunLock(url, "delays"):
            pass
        folders.writable(place / "lanes", "storage root")
        Log(place / "streams").create("flights", 1)
        processes = Processes(place / "logs", lambda job: [sys.executable, "-c", "print('secret')"], {})
        processes.start("delays")
        for folder in ("lanes", "streams", "logs"):
            (place / folder / "later").write_text("made by whoever, under a careless umask")
        store.close()
    finally:
        os.umask(before)
    assert {".anabranch", "lanes", "streams", "logs"} <= {each.name for each in place.iterdir()}
    assert open_to_others(place) == []
    assert stat.S_IMODE((place / ".anabranch" / "coordinator.db").stat().st_mode) == 0o600


def test_a_store_in_a_folder_of_others_is_its_users_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{place}/coordinator.db"
    Store(url).close()
    assert open_to_others(place) == []
    progress.shared(url)
    assert capsys.readouterr().err == f"warning: other users can look into {place}: chmod -R go= {place}\n"
    place.chmod(0o700)
    progress.shared(url)
    assert capsys.readouterr().err == ""


def test_the_mode_that_a_user_has_given_a_folder_stays(place: Path) -> None:
    streams = place / "streams"
    streams.mkdir()
    streams.chmod(0o2770)
    Log(streams).create("flights", 1)
    own_files.make_folder(streams)
    assert stat.S_IMODE(streams.stat().st_mode) == 0o2770


def test_what_is_open_is_seen(place: Path) -> None:
    own_files.make_folder(place / "a" / "b")
    (place / "a" / "b" / "file").touch(0o644)
    assert open_to_others(place) == []
    (place / "a").chmod(0o755)
    (place / "a" / "b").chmod(0o755)
    assert open_to_others(place) == ["a", "a/b", "a/b/file"]
