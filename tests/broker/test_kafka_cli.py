"""The command line on a real broker: the ``stream`` verbs, and what is said where there is no broker or no topic."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog
from confluent_kafka import Producer

from anabranch.cli.main import called
from anabranch.model.hashing import partition_for
from anabranch.spark.session import session
from anabranch.systems.kafka import jars
from anabranch.testing import broker
from anabranch.testing.broker import Cluster
from tests.support import kafka_peers

PATIENCE = 200.0

JOB = 'from anabranch import Job\n\njob = Job("{0}")\njob.read("{0}").write("{0}-out")\n'


class Said(NamedTuple):
    """How a verb has ended."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture
def config(tmp_path: Path, cluster: Cluster) -> Path:
    return configured(tmp_path, f'bootstrap_servers = "{cluster.bootstrap_servers}"')


@pytest.fixture
def name() -> str:
    """Of a stream that is nobody else's."""
    return f"cli-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Call]:
    """Runs a verb in this process, with the configuration of the test's folder."""

    def ran(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["anabranch", *words, "--config", str(tmp_path / "anabranch.toml")])
        capfdbinary.readouterr()
        code = called()
        out, err = capfdbinary.readouterr()
        return Said(code, out.decode(), err.decode())

    monkeypatch.setattr(session, "probed", lambda _: [])  # it stops its session, which is that of all tests here
    path = sys.path[:]
    yield ran
    sys.path[:] = path  # a job file's folder comes before it
    structlog.reset_defaults()


def configured(folder: Path, kafka: str, more: str = "") -> Path:
    path = folder / "anabranch.toml"
    path.write_text(f'[systems]\ndefault = "kafka"\n[systems.kafka]\n{kafka}\n{more}')
    return path


def process(config: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from anabranch.cli import main; main()", *words, "--config", str(config)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def test_create_list_describe(call: Call, config: Path, name: str) -> None:
    assert call("stream", "create", name, "--partitions", "2") == Said(0, "", f"{name}: 2 partitions\n")
    assert call("stream", "create", name, "--partitions", "2").code == 0
    conflict = call("stream", "create", name, "--partitions", "3")
    assert (conflict.code, conflict.out) == (4, "")
    assert f"{name} already exists, with 2 partitions instead of 3" in conflict.err
    assert f"{name}\t2\n" in call("stream", "list").out
    listed = json.loads(call("stream", "list", "--json").out)
    assert {"name": name, "partitions": 2, "system": "kafka"} in listed
    assert not [each for each in listed if each["name"].startswith("__")]
    assert call("stream", "describe", name).out == f"{name}: 2 partitions, 0 offsets in kafka\n0\t0\n1\t0\n"
    described = json.loads(call("stream", "describe", name, "--json").out)
    assert described["partitions"] == [{"partition": n, "start": 0, "end": 0} for n in (0, 1)]


def test_put_and_cat(call: Call, config: Path, name: str, tmp_path: Path, cluster: Cluster) -> None:
    call("stream", "create", name, "--partitions", "4")
    lines = [json.dumps({"k": f"k{n % 7}", "n": n}) for n in range(100)]
    (tmp_path / "lines").write_text("\n".join(lines))
    put = call("stream", "put", name, "--key", "k", "--file", str(tmp_path / "lines"))
    assert put == Said(0, "", f"{name}: 100 records written\n")
    assert {(seen.partition, seen.key) for seen in kafka_peers.committed(cluster.bootstrap_servers, name)} == {
        (partition_for(key, 4), key) for key in (b"k%d" % n for n in range(7))
    }
    assert sorted(call("stream", "cat", name).out.splitlines()) == sorted(lines)
    number = partition_for(b"k3", 4)
    mine = [line for n, line in enumerate(lines) if partition_for(b"k%d" % (n % 7), 4) == number]
    one = ("stream", "cat", name, "--partition", str(number))
    assert call(*one).out.splitlines() == mine
    assert call(*one, "--from", "2").out.splitlines() == mine[2:]
    assert call(*one, "--from", "latest").out == ""
    assert call(*one, "--from", "2", "--max", "3").out.splitlines() == mine[2:5]
    assert call(*one, "--keys", "--max", "1").out == f"{json.loads(mine[0])['k']}\t{mine[0]}\n"
    shown = [json.loads(line) for line in call(*one, "--json").out.splitlines()]
    assert [(each["partition"], each["offset"], each["value"]) for each in shown] == [
        (number, offset, line) for offset, line in enumerate(mine)
    ]
    assert f"{number}\t{len(mine)}\n" in call("stream", "describe", name).out


def test_cat_shows_what_a_reader_may_see(call: Call, config: Path, name: str, cluster: Cluster) -> None:
    """Nothing of a transaction that was aborted, or is open; its end takes an offset, too."""
    call("stream", "create", name, "--partitions", "1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(PATIENCE)
    for value, end in (("gone", producer.abort_transaction), ("there", producer.commit_transaction), ("open", None)):
        producer.begin_transaction()
        producer.produce(name, value.encode())
        assert producer.flush(PATIENCE) == 0
        if end is not None:
            end(PATIENCE)
    shown = call("stream", "cat", name, "--json").out.splitlines()
    assert [(each["offset"], each["value"], each["key"]) for each in map(json.loads, shown)] == [(2, "there", None)]
    assert call("stream", "describe", name).out == f"{name}: 1 partition, 4 offsets in kafka\n0\t4\n"
    producer.abort_transaction(PATIENCE)


def test_a_stream_may_have_another_name_in_kafka(call: Call, name: str, tmp_path: Path, cluster: Cluster) -> None:
    configured(
        tmp_path,
        f'bootstrap_servers = "{cluster.bootstrap_servers}"',
        f'[streams.flights]\ntopic = "{name}"\n',
    )
    assert call("stream", "create", "flights", "--partitions", "3").code == 0
    assert cluster.bootstrap_servers
    assert "flights\t3\n" in call("stream", "list").out
    assert name not in call("stream", "list").out
    assert list(kafka_peers.committed(cluster.bootstrap_servers, name)) == []


def test_what_comes_is_followed(call: Call, config: Path, name: str) -> None:
    call("stream", "create", name, "--partitions", "2")
    put = process(config, "stream", "put", name, "--key", "k")
    follow = process(config, "stream", "cat", name, "--follow", "--keys", "--max", "2")
    try:
        assert put.stdin is not None
        assert follow.stdout is not None
        for key in ("a", "b"):
            put.stdin.write(b'{"k": "%s"}\n' % key.encode())
            put.stdin.flush()
            assert follow.stdout.readline() == b'%s\t{"k": "%s"}\n' % (key.encode(), key.encode())
        assert follow.wait(PATIENCE) == 0
        put.stdin.close()
        assert put.wait(PATIENCE) == 0
    finally:
        for each in (put, follow):
            each.kill()
            each.wait()


def test_doctor_says_who_answers(call: Call, config: Path, cluster: Cluster) -> None:
    assert f"ok   kafka: {cluster.bootstrap_servers}, 1 broker(s)\n" in call("doctor").out


def test_a_stream_that_is_not_there(call: Call, config: Path, name: str, tmp_path: Path) -> None:
    call("stream", "create", f"{name}-a", "--partitions", "1")
    for verb in ("cat", "describe", "put"):
        said = call("stream", verb, f"{name}-b")
        assert (said.code, said.out) == (3, "")
        assert said.err.startswith(f"error: there is no stream {name}-b on the Kafka cluster 127.0.0.1:")
        assert f"did you mean {name}-a?\n  see all with `anabranch stream list`, or create it: `" in said.err
    job = tmp_path / "job.py"
    job.write_text(JOB.format(name))
    for verb in ("run", "plan"):
        said = call(verb, str(job))
        assert (said.code, said.out) == (3, "")
        assert (
            f"(job.py:4): there is no stream '{name}' in kafka\n  create it: anabranch stream create {name}" in said.err
        )


@pytest.mark.long
def test_a_broker_that_is_down(tmp_path: Path, name: str) -> None:
    """Each verb says it once, in one error."""
    (tmp_path / "job.py").write_text(JOB.format(name))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = configured(tmp_path, f'bootstrap_servers = "{address}"')
        verbs = [("run", str(tmp_path / "job.py")), ("plan", str(tmp_path / "job.py")), ("stream", "list")]
        asked = [process(config, *words) for words in verbs]
        said = [each.communicate(timeout=PATIENCE) for each in asked]
    wanted = (
        rf"error: the Kafka cluster {address} didn't answer for 15 s: .*Connection refused.*\n  check that it runs.*\n"
    )
    for each, (out, err) in zip(asked, said, strict=True):
        assert re.fullmatch(wanted, err.decode()), err.decode()
        assert (each.returncode, out) == (1, b"")


@pytest.mark.long
def test_a_login_that_is_refused(
    call: Call, tmp_path: Path, name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = jars.broker_folder()
    assert fetched is not None
    (tmp_path / "job.py").write_text(JOB.format(name))
    monkeypatch.setenv("ANABRANCH_TEST_PASSWORD", "wr0ng")
    with broker.start(tmp_path_factory.mktemp("guarded"), fetched, sasl={"ada": "right"}) as guarded:
        configured(
            tmp_path,
            f'bootstrap_servers = "{guarded.bootstrap_servers}"\nsecurity_protocol = "SASL_PLAINTEXT"\n'
            'sasl_username = "ada"\nsasl_password = "${env:ANABRANCH_TEST_PASSWORD}"\n',
        )
        job = str(tmp_path / "job.py")
        for words in (("run", job), ("plan", job), ("stream", "list"), ("stream", "create", name, "--partitions", "1")):
            said = call(*words)
            assert (said.code, said.out) == (1, ""), words
            assert re.fullmatch(
                rf"error: the Kafka cluster {guarded.bootstrap_servers} \(SASL_PLAINTEXT, PLAIN, user ada\) refuses "
                r"the login: .*\n  check sasl_username, sasl_password and sasl_mechanism in \[systems.kafka\]\n",
                said.err,
            ), said.err
            assert "wr0ng" not in said.err
        doctor = call("doctor")
        assert doctor.code == 1
        assert "FAIL kafka: the Kafka cluster" in doctor.out
        monkeypatch.setenv("ANABRANCH_TEST_PASSWORD", "right")
        assert call("stream", "list") == Said(0, "", "")
