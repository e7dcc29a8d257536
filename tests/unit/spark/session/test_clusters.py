"""What a cluster's executors get, and what a container makes of a cluster that isn't as it must be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.config import Settings, SparkSettings
from anabranch.container import executors
from anabranch.errors import AnabranchError, ConfigError
from anabranch.spark.session import cluster, session
from anabranch.systems.kafka import jars

MASTER = "spark://head:7077"


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*,4]"])
def test_tasks_run_here(master: str) -> None:
    assert not cluster.is_cluster(master)
    assert session.conf(Settings(spark=SparkSettings(master=master)))["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", MASTER, "yarn", "k8s://https://host:443"])
def test_tasks_run_elsewhere_and_must_find_the_driver(master: str) -> None:
    assert cluster.is_cluster(master)
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(
        session.conf(Settings(spark=SparkSettings(master=master)))
    )


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there = f"127.0.0.1:{listening.getsockname()[1]}"
        cluster.check_master(f"spark://127.0.0.1:{unused_port()},{there}")
        cluster.check_master(f"spark://{there},127.0.0.1:{unused_port()}")


def test_a_master_that_does_not_listen_is_named() -> None:
    port = unused_port()
    with pytest.raises(AnabranchError, match=f"no Spark master answers at spark://127.0.0.1:{port}: .+"):
        cluster.check_master(f"spark://127.0.0.1:{port}")


def test_a_master_that_hangs_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWERS_WITHIN", 0.4)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]  # its queue is full: it drops whoever comes
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        with pytest.raises(AnabranchError, match="timed out"):
            cluster.check_master(f"spark://127.0.0.1:{port},127.0.0.1:{port}")
        for each in waiting:
            each.close()


@pytest.mark.parametrize("master", ["spark://", "spark://head", "spark://:7077", "spark://a:7077,b"])
def test_a_master_without_host_and_port_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match="isn't of the form HOST:PORT"):
        cluster.check_master(master)


def test_workers_take_our_interpreter_or_the_one_that_is_set() -> None:
    assert cluster.python({}) == sys.executable
    assert cluster.python({"spark.pyspark.python": "/bin/sh"}) == "/bin/sh"
    with pytest.raises(ConfigError, match="is not on this machine"):
        cluster.python({"spark.pyspark.python": "./environment/bin/python"})


def test_what_is_sent_is_what_workers_import(tmp_path: Path) -> None:
    home, executor, elsewhere = (tmp_path / name for name in ("home", "executor", "elsewhere"))
    for folder in (home / "parts", executor, elsewhere):
        folder.mkdir(parents=True)
    (home / "parts" / "__init__.py").write_text("")
    (home / "parts" / "one.py").write_text("HERE = __file__\n")
    (elsewhere / "given.py").write_text("")
    conf = {"spark.archives": "other.tar.gz#other", "spark.executorEnv.PYTHONPATH": str(elsewhere)}
    sent = cluster.shipped(conf, str(home))

    *ours, last = sent["spark.archives"].split(",")
    assert last == "other.tar.gz#other"
    for archive in ours:
        file, _, name = archive.partition("#")
        zipfile.ZipFile(file).extractall(executor / name)
    steps = [
        "from anabranch.job_code import job_modules",
        "import anabranch.spark.internals.worker_daemon",
        "job_modules.enter_from_environment()",
        "import parts.one, given",
        "print(anabranch.__file__, parts.one.HERE)",
    ]
    words = [sys.executable, "-c", "\n".join(steps)]
    env = {name.removeprefix("spark.executorEnv."): text for name, text in sent.items() if "Env." in name}
    env["PATH"] = os.environ["PATH"]
    printed = subprocess.run(words, cwd=executor, env=env, capture_output=True, text=True, check=True).stdout
    assert all(Path(each).is_relative_to(executor) for each in printed.split()), printed
    there = {path.name for path in Path(anabranch.__file__).parent.rglob("*") if path.is_file()}
    assert {name for name in there if not name.endswith(".pyc")} == {
        path.name for path in (executor / "anabranch-package").rglob("*") if path.is_file() and path.suffix != ".pyc"
    }


def test_a_session_that_a_master_does_not_take_names_it() -> None:
    def failing() -> None:
        raise RuntimeError("An error occurred.\n: java.lang.IllegalStateException: stopped\n\tat x")

    builder: Any = SimpleNamespace(getOrCreate=failing)
    why = "java.lang.IllegalStateException: stopped"
    with pytest.raises(AnabranchError, match=f"^{MASTER} hasn't accepted the application: {why}\n"):
        session.opened(builder, MASTER)


def test_what_no_master_is_to_blame_for_stays_as_it_is() -> None:
    builder: Any = SimpleNamespace(getOrCreate=lambda: {}["spark"])
    with pytest.raises(KeyError):
        session.opened(builder, "local[2]")


def test_a_java_that_spark_does_not_start_with_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number")

    builder: Any = SimpleNamespace(getOrCreate=failing)
    for master in ("local[2]", MASTER, "yarn"):  # no master is to blame for a Java that ends on this machine
        with pytest.raises(
            AnabranchError, match=r"Java ended before Spark had started: see Spark's .*\n.* \[spark\] memory"
        ):
            session.opened(builder, master)
    subprocess.run(["jlink", "--add-modules", "java.base", "--output", tmp_path / "part"], check=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "part"))
    with pytest.raises(AnabranchError, match=r"java lacks the module jdk.incubator.vector, .*\n.* JAVA_HOME"):
        session.opened(builder, "local[2]")


def test_packages_that_spark_may_not_have_got_are_named() -> None:
    def failing() -> None:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number")

    builder: Any = SimpleNamespace(getOrCreate=failing)
    connector = jars.of_pyspark()
    with pytest.raises(AnabranchError, match=f"^Spark hasn't started with {connector}, .*\n.*anabranch jars fetch"):
        session.opened(builder, "local[2]", connector, jars.OTHERS)


@pytest.mark.parametrize(
    ("stdout", "stderr", "told"),
    [
        ("Error during initialization\nNot enough space", "", "Error during initialization / Not enough space"),
        ("", "Picked up\nUnrecognized option: -Xfoo\nNo Java\n\n", "Picked up / Unrecognized option: -Xfoo / No Java"),
        ("", "::::\nb;1: not found\n\tat a.B.c(D:1)\n\t... 2 more", "b;1: not found"),
    ],
)
@pytest.mark.parametrize("packages", ["", "a:b:1"])
def test_what_java_printed_is_told_where_it_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    packages: str,
    stdout: str,
    stderr: str,
    told: str,
) -> None:
    def failing(_: object) -> None:
        subprocess.run(["sh", "-c", 'printf "$1"; printf "$2" >&2', "sh", stdout, stderr], check=True)
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", failing)
    conf = {"spark.jars.packages": packages} if packages else {}
    start = "Spark hasn't started with a:b:1, .*" if packages else "Java ended before Spark had started"
    with pytest.raises(AnabranchError, match=f"^{start}: {told}\n"):
        session.for_schemas(Settings(spark=SparkSettings(conf=conf)), "")
    subprocess.run(["sh", "-c", "echo shown; echo also >&2"], check=True)
    assert capfd.readouterr() == ("shown\n", "also\n")


def test_only_what_this_java_printed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(_: object) -> None:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", failing)
    (tmp_path / "log").write_text("a line of an earlier session\n")
    with pytest.raises(AnabranchError, match=r"^Java ended before Spark had started: nothing was printed\n"):
        session.start(Settings(), output=tmp_path / "log")


def test_schemas_are_checked_here_whatever_the_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []
    monkeypatch.setattr(session, "start", lambda settings, *_: seen.append(settings))
    of_the_place = dict.fromkeys(cluster.OF_THE_PLACE, "elsewhere")
    conf = {**of_the_place, "spark.sql.caseSensitive": "true"}
    session.for_schemas(Settings(spark=SparkSettings(master=MASTER, conf=conf)), "")
    assert seen[0].spark == SparkSettings(master="local[1]", conf={"spark.sql.caseSensitive": "true"})


def _spark() -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=MASTER))


def _slots(monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    left = list(counts)
    monkeypatch.setattr(executors, "task_slots", lambda _: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(executors, "POLL", 0.001)


@pytest.mark.parametrize(("counts", "cores", "given"), [((0, 0, 1), 0, 1), ((0, 2, 4), 3, 4), ((4,), 4, 4)])
def test_it_waits_for_executors(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], cores: int, given: int
) -> None:
    _slots(monkeypatch, *counts)
    assert executors.wait_for_slots(_spark(), cores, lambda _: None, lambda: False) == given


def test_it_says_that_it_waits_and_stops_when_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _slots(monkeypatch, 0)
    monkeypatch.setattr(executors, "SAY_AFTER", 0.0)
    said: list[str] = []
    assert executors.wait_for_slots(_spark(), 0, said.append, lambda: len(said) > 0) == 0
    assert said[0].startswith(f"{MASTER} has given no executor in 0 s")


@pytest.mark.parametrize(("after", "told"), [(0.0, True), (60.0, False)])
def test_the_coordinator_is_told_once_a_cluster_has_given_no_slot_for_long(
    monkeypatch: pytest.MonkeyPatch, after: float, told: bool
) -> None:
    monkeypatch.setattr(executors, "CALL_AFTER", after)
    waiting: list[str] = []
    _slots(monkeypatch, 0, 0, 0, 1)
    assert executors.wait_for_slots(_spark(), 0, lambda _: None, lambda: False, lambda: waiting.append("told")) == 1
    assert waiting == ["told"] * told


def test_too_few_slots_in_real_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _slots(monkeypatch, 2)
    monkeypatch.setattr(executors, "SLOTS_WITHIN", 0.01)
    with pytest.raises(ConfigError, match="has given 2 task slots in 0 s, but 4 tasks"):
        executors.wait_for_slots(_spark(), 4, lambda _: None, lambda: False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "Error from python worker:\n  python: Error (ModuleNotFoundError: No module named 'msgspec')\nPYTHONPATH",
            "ModuleNotFoundError: No module named 'msgspec'",
        ),
        (
            'Lost task 0.0: java.io.IOException: Cannot run program "./x/python": error=2, No such file\n\tat java',
            'Cannot run program "./x/python": error=2, No such file',
        ),
        ("Traceback (most recent call last):\n  File\nValueError: no\n", "ValueError: no"),
    ],
)
def test_why_executors_cannot_run_python(text: str, why: str) -> None:
    assert executors.why_no_python(RuntimeError(text)) == why
