"""Processes that are forked where Spark would start them: as if it had."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.spark.internals import fork_client

SERVES = """
import sys
from anabranch.spark.internals import fork_server
import decimal
fork_server.serve(sys.argv[1], sys.argv[2:])
print("serves", flush=True)
sys.stdin.read()
"""
TOLD = """
import os, sys
print("decimal" in sys.modules, os.getcwd(), os.environ["GIVEN"], *sys.argv[1:], sys.stdin.read(), flush=True)
print("an error", file=sys.stderr)
import beside
sys.exit(7)
"""
SLEEPS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


@contextmanager
def serving(path: Path, *modules: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", SERVES, str(path), *modules]
    pipe, env = subprocess.PIPE, {**os.environ, **fork_client.SPARKS}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=env) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "serves\n"
        try:
            yield server
        finally:
            server.stdin.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "told.py").write_text(TOLD)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    return tmp_path


def client(folder: Path, listening: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-IS", fork_client.__file__, str(listening), "-m", *words]
    known = os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "GIVEN": "a=b", "PYTHONPATH": os.pathsep.join([str(folder), known]), **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("forked", [True, False])
def test_a_fork_has_what_the_process_was_given(folder: Path, forked: bool) -> None:
    listening = folder / "socket"
    with serving(listening if forked else folder / "elsewhere"):
        for _ in range(3):
            asked = client(folder, listening, "told", "an argument", "")
            printed, errors = asked.communicate("a question", timeout=60)
            assert (printed, errors) == (f"{forked} {folder} a=b an argument  a question\n", "an error\n")
            assert asked.returncode == 7


@pytest.mark.parametrize("name", fork_client.SPARKS)
def test_a_variable_for_which_a_fork_is_too_late_makes_a_process_do_its_own_work(folder: Path, name: str) -> None:
    with serving(folder / "socket"):
        asked = client(folder, folder / "socket", "told", **{name: "2"})
        printed, errors = asked.communicate("", timeout=60)
    assert (printed.split()[0], errors, asked.returncode) == ("False", "an error\n", 7)


def test_a_fork_has_no_archive_of_sparks_on_its_path(folder: Path) -> None:
    (folder / "paths.py").write_text("import sys; print(*(each for each in sys.path if each.endswith('.jar')))")
    with zipfile.ZipFile(folder / "spark-core_2.13-4.3.0.jar", "w") as jar:
        jar.writestr("Main.class", "")
    variable = os.pathsep.join([str(folder), str(jar.filename)])
    with serving(folder / "socket"):
        asked = client(folder, folder / "socket", "paths", PYTHONPATH=variable)
        printed, errors = asked.communicate("", timeout=60)
    assert (printed, errors, asked.returncode) == ("\n", "", 0)


SECRET = b"secret"
DAEMON = """
import sys
from pyspark.daemon import manager
manager()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_ends_with_its_client_and_its_workers_with_it(folder: Path, number: signal.Signals) -> None:
    (folder / "daemon.py").write_text(DAEMON)
    secret = {"PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(), "SPARK_REUSE_WORKER": "1"}
    with serving(folder / "socket"):
        asked = client(folder, folder / "socket", "daemon", **secret)
        assert asked.stdout is not None
        port = int.from_bytes(asked.stdout.buffer.read(4), "big")
        with socket.create_connection(("127.0.0.1", port)) as spark:
            worker = int.from_bytes(spark.recv(4), "big")
            os.kill(worker, 0)
            spark.sendall(len(SECRET).to_bytes(4, "big") + SECRET)
            assert spark.recv(6) == b"\0\0\0\2ok", "from now on, the worker ends when its daemon says so"
            asked.send_signal(number)
            assert asked.wait(60) == -number
            assert gone(worker)
        asked.communicate(timeout=60)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_each_fork_has_its_own_random_numbers(folder: Path) -> None:
    (folder / "draws.py").write_text("import numpy as np\nprint(np.random.randint(2**62))")
    with serving(folder / "socket", "numpy.random"):
        drawn = [client(folder, folder / "socket", "draws").communicate(timeout=60)[0] for _ in range(6)]
    assert len(set(drawn)) == len(drawn)


def test_an_error_is_printed(folder: Path) -> None:
    with serving(folder / "socket"):
        asked = client(folder, folder / "socket", "nothing_is_called_so")
        _, errors = asked.communicate(timeout=60)
        assert "nothing_is_called_so" in errors
        assert asked.returncode == 1


def gone(pid: int) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_with_its_client_and_the_client_with_its_fork(folder: Path, number: signal.Signals) -> None:
    with serving(folder / "socket"):
        for kills_client in (True, False):
            asked = client(folder, folder / "socket", "sleeps")
            assert asked.stdout is not None
            fork = int(asked.stdout.readline())
            assert fork != asked.pid
            os.kill(asked.pid if kills_client else fork, number)
            asked.communicate(timeout=60)
            assert asked.returncode == (-number if kills_client else 1)
            assert gone(fork)


def test_a_fork_ends_with_a_client_that_is_killed_before_it_has_read_that_it_was_begun(folder: Path) -> None:
    words, environment = (
        [b"-m", b"sleeps"],
        [
            f"{name}={value}".encode()
            for name, value in {**os.environ, "PYTHONPATH": folder, **fork_client.SPARKS}.items()
        ],
    )
    told = b"\0".join([bytes(folder), b"%d" % len(words), *words, *environment])
    reads, writes = os.pipe()
    with serving(folder / "socket"), open(reads, encoding="utf-8") as printed, open(os.devnull, "r+b") as nothing:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.connect(str(folder / "socket"))
            streams = [nothing.fileno(), writes, nothing.fileno()]
            socket.send_fds(server, [len(told).to_bytes(4, "big")], streams)
            server.sendall(told)
            os.close(writes)
            fork = int(printed.readline())
        assert gone(fork)


def test_a_server_ends_with_what_has_begun_it_and_its_forks_go_on(folder: Path) -> None:
    listening = folder / "socket"
    with serving(listening):
        asked = client(folder, listening, "sleeps")
        assert asked.stdout is not None
        fork = int(asked.stdout.readline())
        server = int(Path(f"/proc/{fork}/stat").read_text().rpartition(")")[2].split()[1])
    assert gone(server)
    os.kill(fork, 0)
    asked.kill()
    asked.communicate(timeout=60)
    assert gone(fork)
    asked = client(folder, listening, "told")
    assert asked.communicate("", timeout=60)[0].startswith("False"), "what nobody serves is done without"


def test_a_server_imports_what_is_left_when_nobody_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "several").mkdir()
    (folder / "several" / "__init__.py").write_text("")
    (folder / "several" / "left.py").write_text("import sys, time\ntime.sleep(0.5)\nprint(__name__, *sys.argv[1:])")
    (folder / "asks.py").write_text("import sys\nprint('several.left' in sys.modules)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    listening, end = folder / "socket", time.monotonic() + 30
    with serving(listening, "several.left"):
        while client(folder, listening, "asks").communicate(timeout=60)[0] != "True\n":
            assert time.monotonic() < end, "the server never imports it"
        for _ in range(2):
            asked = client(folder, listening, "several.left", "a program")
            assert asked.communicate(timeout=60) == ("__main__ a program\n", ""), "no warning that it is imported"


def test_the_first_one_serves(folder: Path) -> None:
    listening = folder / "socket"
    with serving(listening), serving(listening):
        asked = client(folder, listening, "told")
        assert asked.communicate("", timeout=60)[0].startswith("True")
