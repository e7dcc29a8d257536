"""What can't be understood or isn't there gets one clear message and the right exit code, and no traceback of ours."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from anabranch.coordinator.leadership.endpoint import RunLock
from tests.acceptance.harness import INPUT, JOB, PARTITIONS, Process, Workspace

pytestmark = pytest.mark.acceptance

RUN, PLAN = ("run", "delays.py"), ("plan", "delays.py")
CREATE = ("stream", "create", "x", "--partitions", "1")


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    workspace.system.create(INPUT, PARTITIONS)
    return workspace


def refused(process: Process, *said: str) -> None:
    """One error, with these words in it."""
    lines = process.stderr.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    assert len(errors) == 1, process.stderr
    message = "\n".join(lines[errors[0] :])
    assert all(words in message for words in said), message


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nix",), 2, ["No such command 'nix'"]),
        (("run",), 2, ["Missing argument"]),
        (("run", "--nix", "delays.py"), 2, ["No such option: --nix"]),
        (("run", "nix.py"), 3, ["no job file nix.py"]),
        (("run", "delays.py", "--config", "nix.toml"), 3, ["no configuration file nix.toml"]),
        (("status",), 2, ["Missing argument"]),
        (("status", JOB), 3, ["no store at", "coordinator.db", "anabranch run"]),
        (("stop", JOB), 3, ["no store at", "coordinator.db"]),
        (("stop", JOB, "--timeout", "soon"), 2, ["--timeout", "valid number"]),
        (("jobs",), 3, ["no store at"]),
        (("stream", "nix"), 2, ["No such command 'nix'"]),
        (("stream", "describe", "flihgts"), 3, ["no stream flihgts", "did you mean flights?", "stream list"]),
        (("stream", "cat", "flihgts"), 3, ["no stream flihgts", "did you mean flights?"]),
        (("stream", "put", "flihgts"), 3, ["no stream flihgts", "did you mean flights?"]),
        (("stream", "put", INPUT, "--file", "nix.jsonl"), 2, ["nix.jsonl can't be read: No such file"]),
        (("stream", "cat", INPUT, "--partition", "9"), 3, ["flights has no partition 9", "0 to 3"]),
        (("stream", "cat", INPUT, "--from", "x"), 2, ["--from x", "earliest, latest or an offset"]),
        (("stream", "cat", INPUT, "--keys", "--json"), 2, ["--keys and --json exclude each other"]),
        (("stream", "create", INPUT, "--partitions", "3"), 4, ["flights already exists, with 4 partitions"]),
        (("stream", "create", "more", "--partitions", "0"), 2, ["--partitions", "greater than or equal to 1"]),
        (("stream", "create", "a/b", "--partitions", "1"), 2, ["'a/b' can't be the name of a stream"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.suite(cases=2)
def test_words_that_mean_nothing(workspace: Workspace, words: tuple[str, ...], code: int, said: list[str]) -> None:
    refused(workspace.call(*words, code=code), *said)


@pytest.mark.parametrize("words", [RUN, PLAN], ids=" ".join)
def test_unknown_input_stream(workspace: Workspace, words: tuple[str, ...]) -> None:
    job = workspace.folder / "delays.py"
    job.write_text(job.read_text().replace('"flights",\n', '"flihgts",\n'))
    refused(workspace.call(*words, code=3), "'flihgts'", "delays.py:", "anabranch stream list")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[job]\nfacter = 4", ["unknown setting 'job.facter'", "did you mean 'factor'?"]),
        ("[jobs]\nfactor = 4", ["unknown setting 'jobs'", "did you mean 'job'?"]),
        ('[streams.flights]\nformatt = "json"', ["unknown setting 'streams.flights.formatt'", "'format'?"]),
        ('[systems.embeded]\nroot = "x"', ["unknown setting 'systems.embeded'", "'embedded'?"]),
        ('[streams.flights]\nformat = "jsn"', ["'streams.flights.format' has the value 'jsn'"]),
        ("[job]\nfactor = 3", ["factor 3 is not a power of two", "2 and 4"]),
        ('[job]\ngrouper = "partitoin"', ["no grouper is called 'partitoin'", "did you mean 'partition'?"]),
        ('[job]\ngrouper = "nowhere:it"', ["grouper 'nowhere:it' can't be imported", "module:function"]),
        ("[job", ["is not TOML", "anabranch.toml"]),
    ],
)
@pytest.mark.suite(cases=2)
def test_configuration(workspace: Workspace, toml: str, said: list[str]) -> None:
    (workspace.folder / "anabranch.toml").write_text(toml + "\n")
    refused(workspace.call(*RUN, code=2), *said)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("JOB__FACTER", "4", ["unknown setting 'job.facter'", "did you mean 'factor'?"]),
        ("JOBS__FACTOR", "4", ["ANABRANCH__JOBS__FACTOR", "did you mean 'job'?"]),
        ("JOB__FACTOR", "3", ["factor 3 is not a power of two"]),
        ("JOB__FACTOR", "many", ["'job.factor' has the value 'many'"]),
        ("JOB__CONTAINERS", "2", ["containers = 2, and this is one process", "anabranch start JOB.py"]),
        ("COORDINATOR__STORE", "nonsense", ["'nonsense' is not a database URL", "sqlite:////"]),
    ],
)
@pytest.mark.suite(cases=2)
def test_environment(workspace: Workspace, name: str, value: str, said: list[str]) -> None:
    refused(workspace.call(*RUN, code=2, env={f"ANABRANCH__{name}": value}), *said)


READ = 'from anabranch import Job\njob = Job("delays")\nflights = job.read("flights", schema="dest string")\n'


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import helper\n", ["delays.py can't be imported", "delays.py", "helper.py", "1 / 0", "ZeroDivisionError"]),
        ("from anabranch import Jbo\n", ["delays.py can't be imported", "cannot import name 'Jbo'"]),
        ("job = (\n", ["delays.py can't be imported", "line 1", "SyntaxError"]),
        ("import sys\nsys.exit(7)\n", ["delays.py can't be imported", "SystemExit: 7"]),
        ("job = 1\n", ["delays.py must hold one Job, found none"]),
        ("from anabranch import Job\na, b = Job('a'), Job('b')\n", ["must hold one Job, found a, b"]),
        ("from anabranch import Job\njob = Job('a/b')\n", ["'a/b'"]),
        ("from anabranch import Job\njob = Job('delays')\n", ["job 'delays' has no operators"]),
        (READ, ["read 'flights' (delays.py:3) leads to no output"]),
        (READ + 'flights.agg(n="count(*)").write("x")\n', ["agg", "delays.py:4", "no stage key", ".partition_by("]),
        (READ + 'flights.map(3).write("x")\n', ["map at delays.py:4", "not a function"]),
    ],
    ids=[
        "raises below",
        "import",
        "syntax",
        "exits",
        "no job",
        "two jobs",
        "name",
        "no operators",
        "no output",
        "agg without a key",
        "no function",
    ],
)
@pytest.mark.suite(cases=2)
def test_job_file(workspace: Workspace, source: str, said: list[str]) -> None:
    (workspace.folder / "helper.py").write_text("def fails():\n    return 1 / 0\n\nfails()\n")
    (workspace.folder / "delays.py").write_text(source)
    process = workspace.call(*RUN, code=2)
    refused(process, *said)
    assert not re.search(r"anabranch/cli|importlib|frozen", process.stderr), process.stderr


@pytest.mark.long
def test_expression_that_names_no_column(workspace: Workspace) -> None:
    job = workspace.folder / "delays.py"
    text = job.read_text().replace("dep_delay >= 15", "dep_dealy >= 15")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "dep_dealy" in each)
    job.write_text(text)
    refused(workspace.call(*PLAN, code=2), "where", f"delays.py:{line}", "`dep_dealy`", "`dep_delay`")


@pytest.mark.parametrize("words", [RUN, PLAN], ids=" ".join)
def test_no_java(workspace: Workspace, tmp_path: Path, words: tuple[str, ...]) -> None:
    empty = tmp_path / "java"
    empty.mkdir()
    said = "there is no Java", "install Java 17"
    refused(workspace.call(*words, code=1, env={"JAVA_HOME": str(empty)}), *said, str(empty))
    refused(workspace.call(*words, code=1, env={"JAVA_HOME": "", "PATH": str(empty)}), *said, "no java on PATH")


@pytest.mark.parametrize(
    ("words", "version", "said"),
    [(RUN, "1.8.0_392", "Java 8"), (PLAN, "11.0.2", "Java 11"), (PLAN, "?", "Java of an unknown version")],
    ids=["run", "plan", "unknown"],
)
def test_java_too_old(workspace: Workspace, tmp_path: Path, words: tuple[str, ...], version: str, said: str) -> None:
    process = workspace.call(*words, code=1, env={"JAVA_HOME": str(fake_java(tmp_path, version))})
    refused(process, f"is {said}; Spark needs 17 or 21", "install Java 17")


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2023-10-17' >&2\n")
    java.chmod(0o755)
    return folder / "java"


def test_doctor_says_what_is_missing(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"JAVA_HOME": str(fake_java(tmp_path, "1.8.0_392")), "ANABRANCH__STORAGE__ROOT": str(tmp_path / "file" / "x")}
    process = workspace.call("doctor", code=1, env=env)
    refused(process, "some checks failed")
    failed = [line for line in process.stdout.splitlines() if line.startswith("FAIL ")]
    assert len(failed) == 2
    assert "java: " in failed[0]
    assert "Java 8" in failed[0]
    assert f"storage root: the storage root {tmp_path}/file/x can't be written: Not a directory" in failed[1]


@pytest.mark.parametrize(
    ("words", "setting", "code", "said"),
    [
        (RUN, "STORAGE__ROOT", 1, "the storage root {} can't be written: Not a directory"),
        (RUN, "SYSTEMS__EMBEDDED__ROOT", 1, "the embedded root {} can't be written: Not a directory"),
        (RUN, "COORDINATOR__STORE", 2, "of the store can't be made: Not a directory"),
        (CREATE, "SYSTEMS__EMBEDDED__ROOT", 1, "the embedded root {} can't be written: Not a directory"),
        (("stream", "list"), "SYSTEMS__EMBEDDED__ROOT", 0, ""),
        (("status", JOB), "COORDINATOR__STORE", 3, "no store at {}"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.suite(cases=2)
def test_root_that_cannot_be_written(
    workspace: Workspace, tmp_path: Path, words: tuple[str, ...], setting: str, code: int, said: str
) -> None:
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    value = f"sqlite:///{below}/coordinator.db" if setting == "COORDINATOR__STORE" else str(below)
    process = workspace.call(*words, code=code, env={f"ANABRANCH__{setting}": value})
    if code:
        refused(process, said.format(below))


@pytest.mark.long
def test_store_that_is_none(workspace: Workspace, tmp_path: Path) -> None:
    other, rubbish = tmp_path / "other.db", tmp_path / "rubbish.db"
    with sqlite3.connect(other) as connection:
        connection.execute("create table theirs (id)")
    rubbish.write_bytes(b"no database at all, but of some length" * 100)
    for path in (other, rubbish):
        before = path.read_bytes()
        for words in (RUN, ("status", JOB), ("jobs",)):
            process = workspace.start(*words, env={"ANABRANCH__COORDINATOR__STORE": f"sqlite:///{path}"})
            assert process.wait() != 0
            assert "Traceback" not in process.stderr
            refused(process, str(path))
        assert path.read_bytes() == before


def test_job_that_runs_already(workspace: Workspace) -> None:
    with RunLock(f"sqlite:///{workspace.folder}/.anabranch/coordinator.db", JOB):
        refused(workspace.call(*RUN, code=4), f"job {JOB} is already running here (pid ", f"anabranch stop {JOB}")


def test_lines_that_are_no_json(workspace: Workspace, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"a": 1}\n{"a": 2}\n{"a": \n{"a": 4}\n')
    process = workspace.call("stream", "put", INPUT, code=1, input=lines)
    refused(process, "line 3 can't be put", "2 records written", "tail -n +3")
    assert sum(workspace.ends()[INPUT].values()) == 2
