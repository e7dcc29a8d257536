"""Notes of who serves a job, and the lock that lets there be only one."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from anabranch.coordinator.api import listening
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.leadership.endpoint import RunLock
from anabranch.coordinator.store import Store
from anabranch.errors import ConfigError, ConflictError, UsageError

HOLD = """
import sys
from anabranch.coordinator.leadership.endpoint import RunLock
with RunLock(sys.argv[1], "delays"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store/coordinator.db"


@pytest.fixture
def server() -> Iterator[listening.Server]:
    serving = listening.serve(Coordinator(Store("sqlite://")))
    yield serving
    serving.close()


def gone_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_job_that_is_served_is_found_until_its_note_is_removed(url: str, server: listening.Server) -> None:
    assert endpoint.find(url) == {}
    endpoint.write(url, "delays", server.url)
    endpoint.write(url, "other.job", server.url)
    assert endpoint.find(url) == {"delays": server.url, "other.job": server.url}
    endpoint.remove(url, "delays")
    endpoint.remove(url, "delays")
    assert endpoint.find(url) == {"other.job": server.url}


def test_notes_of_the_dead_and_of_strangers_don_t_count(url: str, server: listening.Server) -> None:
    endpoint.write(url, "delays", server.url)
    folder = endpoint.run_folder(url)
    note = (folder / "delays.json").read_text()
    mine, gone = f'"pid": {os.getpid()}', f'"pid": {gone_pid()}'
    assert mine in note
    (folder / "died.json").write_text(note.replace(mine, gone))
    (folder / "zero.json").write_text(note.replace(mine, '"pid": 0'))
    (folder / "mute.json").write_text(note.replace(server.url, "http://127.0.0.1:1"))
    (folder / "nonsense.json").write_text(note.replace(server.url, "nowhere"))
    (folder / "broken.json").write_text("{")
    (folder / ".0f3c.tmp").write_text(note.replace(mine, mine[:-1]))  # its writer was killed
    (folder / "..bad name.json").write_text(note)
    assert endpoint.find(url) == {"delays": server.url}


@contextmanager
def answering(content: bytes | None) -> Iterator[str]:
    """The URL of a service that answers each request with ``content`` or, if this is None, not at all."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    if content is None:
                        over.wait()
                    else:
                        connection.recv(4096)
                        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content)

        over = threading.Event()
        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        over.set()


@pytest.mark.parametrize(
    ("content", "held", "is_found"),
    [
        (None, True, True),  # it is suspended, or too busy to answer
        (None, False, False),  # its pid is another process's now
        (b"{}", True, False),  # another service has its port
        (b"", True, False),
    ],
)
def test_a_process_that_does_not_answer_serves_its_job_as_long_as_it_holds_the_lock(
    url: str, content: bytes | None, held: bool, is_found: bool
) -> None:
    with answering(content) as silent, RunLock(url, "delays") if held else nullcontext():
        endpoint.write(url, "delays", silent)
        assert endpoint.find(url) == ({"delays": silent} if is_found else {})


def test_who_holds_a_lock_can_be_asked_without_taking_it_away(url: str) -> None:
    lock = RunLock(url, "delays")
    assert (lock.is_held(), lock.holder()) == (False, None)
    with lock:
        assert RunLock(url, "delays").is_held()
        assert RunLock(url, "delays").holder() == os.getpid()
    assert (lock.is_held(), lock.holder()) == (False, None)
    with lock:  # it was given back
        pass


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", ".hidden", "a\n", "x" * 101])
def test_names_are_checked_before_they_touch_a_path(url: str, name: str, tmp_path: Path) -> None:
    for call in (
        lambda: endpoint.write(url, name, "http://127.0.0.1:1"),
        lambda: endpoint.remove(url, name),
        lambda: RunLock(url, name),
    ):
        with pytest.raises(UsageError, match="can't be the name of a job"):
            call()
    assert not list(tmp_path.rglob("*.json")) + list(tmp_path.rglob("*.lock"))


def test_a_place_that_can_t_be_written_is_a_setting_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = f"sqlite:///{tmp_path}/file/coordinator.db"
    for call in (lambda: endpoint.write(below, "delays", "u"), RunLock(below, "delays").acquire):
        with pytest.raises(ConfigError, match="can't be made"):
            call()
    with pytest.raises(ConfigError, match="in memory"):
        RunLock("sqlite://", "delays")


def test_one_process_at_a_time_holds_a_job(url: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(ConflictError, match=rf"job delays is already running here \(pid {holder.pid}\)") as caught:
        RunLock(url, "delays").acquire()
    assert caught.value.cure == "anabranch stop delays"
    with RunLock(url, "other"):
        pass
    holder.kill()
    holder.communicate()
    with RunLock(url, "delays"), pytest.raises(ConflictError, match=f"pid {os.getpid()}"):
        RunLock(url, "delays").acquire()
    with RunLock(url, "delays"):
        pass


def test_a_store_under_two_names_has_one_lock_and_one_note(tmp_path: Path, url: str, server: listening.Server) -> None:
    Store(url).close()
    link = tmp_path / "project" / "other.db"
    link.parent.mkdir()
    link.symlink_to("../store/coordinator.db")
    linked = f"sqlite:///{link}"
    with RunLock(linked, "delays"):
        with pytest.raises(ConflictError, match="job delays is already running here"):
            RunLock(url, "delays").acquire()
        assert RunLock(url, "delays").is_held()
    endpoint.write(linked, "delays", server.url)
    assert endpoint.find(url) == {"delays": server.url}
    endpoint.remove(url, "delays")
    assert endpoint.find(linked) == {}


@contextmanager
def no_byte_can_be_written() -> Iterator[None]:
    """As on a full disk, files can be made, but not written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_lock_is_held_and_released_even_if_the_process_id_cannot_be_written(url: str) -> None:
    lock = RunLock(url, "delays")
    with no_byte_can_be_written():
        lock.acquire()
    assert (lock.is_held(), lock.holder()) == (True, 0)
    with pytest.raises(ConflictError, match=r"already running here\n"):
        RunLock(url, "delays").acquire()
    lock.release()
    with RunLock(url, "delays"):
        pass


def test_a_file_that_cannot_be_locked_is_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", fails)
        with pytest.raises(ConfigError, match="can't be made: No locks available"):
            RunLock(url, "delays").acquire()
    assert open_files() == before
    with RunLock(url, "delays"):
        pass


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_children_don_t_hold_the_lock_of_a_process_that_gave_it_up(url: str) -> None:
    lock = RunLock(url, "delays")
    lock.acquire()
    executed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    reader, writer = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        with pytest.raises(ConflictError):
            RunLock(url, "delays").acquire()  # a child that closed its copy hasn't freed it
        lock.release()
        await_lock(url)
    finally:
        os.close(writer)
        os.waitpid(forked, 0)
        executed.communicate(b"\n")


def await_lock(url: str) -> None:
    """Both children live; they may need a moment to get as far as closing what they inherited."""
    for _ in range(100):
        try:
            with RunLock(url, "delays"):
                return
        except ConflictError:
            subprocess.run(["sleep", "0.02"], check=True)
    raise AssertionError("a child holds the lock")
