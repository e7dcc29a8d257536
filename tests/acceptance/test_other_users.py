"""A job in a folder that everybody may look into: another user of the machine sees, asks and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from anabranch.coordinator.api import token_file
from tests.acceptance.harness import JOB, Workspace, flights
from tests.acceptance.processes import descendants
from tests.support import jvm, open_ports
from tests.support.paths import ROOT
from tests.support.permissions import open_to_others

pytestmark = pytest.mark.acceptance


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="anabranch-others-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def workspace(place: Path) -> Iterator[Workspace]:
    """The harness itself leaves its own files there, and what a verb prints."""
    made = Workspace(place)
    yield made
    made.close()


def of_the_job(workspace: Workspace) -> list[str]:
    return [each for each in open_to_others(workspace.folder) if each.startswith(".anabranch")]


@pytest.mark.long
def test_another_user_sees_and_changes_nothing(workspace: Workspace) -> None:
    workspace.put(flights(seed=5, count=2000))
    process = workspace.start("run", f"{JOB}.py", job__max_rows_per_batch=200)
    process.until("a committed batch of each lane", lambda: min(workspace.committed(s) for s in ("0-", "1-")) >= 0)
    token = token_file.read(workspace.folder / ".anabranch" / "coordinator.db.token")
    assert token
    assert of_the_job(workspace) == []
    url = workspace.url
    for method, path in (("GET", f"/jobs/{JOB}"), ("POST", f"/jobs/{JOB}/stop"), ("GET", "/metrics")):
        assert httpx.request(method, f"{url}{path}", trust_env=False).status_code == 401
    assert workspace.status()["state"] == "running"  # the verb has found the token
    assert of_processes(token) == []
    assert answering_anybody([process.popen.pid, *descendants(process.popen.pid)]) == {}
    workspace.call("stop", JOB)
    assert process.wait() == 0, process.stderr
    assert of_the_job(workspace) == []
    found = workspace.call("events", JOB, "--json").stdout
    assert f"GET /jobs/{JOB}: 401" in found  # of the refused requests in a minute, the first one
    assert f"POST /jobs/{JOB}/stop: 200" in found
    trail = (workspace.folder / ".anabranch" / "coordinator.db.audit").read_text()
    refused = [line["path"] for line in map(json.loads, trail.splitlines()) if line["status"] == 401]
    assert refused == [f"/jobs/{JOB}", f"/jobs/{JOB}/stop", "/metrics"]
    assert token not in found + process.stdout + process.stderr


def answering_anybody(pids: list[int]) -> dict[tuple[str, int], bytes]:
    """The ports of these processes that other machines reach, or on which Spark reads what anybody sends."""
    ports = open_ports.listening(pids)
    assert len(ports) > 2, ports  # the coordinator's, and those of Spark's driver and of its gateway
    answers = {each: open_ports.asked(each[1]) for each in ports}
    assert any(b"Expected SaslMessage" in answer for answer in answers.values()), answers
    return {
        (address, port): answer
        for (address, port), answer in answers.items()
        if address not in ("127.0.0.1", "::1") or b"readUTF" in answer
    }


def of_processes(token: str) -> list[str]:
    """Processes of this machine whose arguments or environment have the token."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                text = (process / name).read_bytes()
            except OSError:
                continue  # it has ended, or is somebody else's
            if token.encode() in text:
                found.append(f"{process.name}: {name}")
    return found


def test_a_token_in_an_environment_is_found() -> None:
    token = "a-token-to-be-found"
    with subprocess.Popen(
        ["sh", "-c", "echo ready; exec sleep 30"], env={"TOKEN": token}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert f"{process.pid}: environ" in of_processes(token)
        finally:
            process.kill()


SESSION = """
import json, os, sys
from pathlib import Path
from anabranch.config import Settings, SparkSettings
from anabranch.spark.session import session
from tests.acceptance.test_other_users import of_processes

text = Path(sys.argv[1]).read_text()
names = json.loads(sys.argv[2])
conf = {name: f"${{file:{sys.argv[1]}}}" for name in names[:-1]} | {names[-1]: text}
spark = session.start(Settings(spark=SparkSettings(master="local[1]", conf=conf)))
java = spark.sparkContext.getConf()
print(json.dumps({"told": [java.get(name) for name in names], "seen": of_processes(text[:12])}))
print("PYSPARK_SUBMIT_ARGS" in os.environ, file=sys.stderr)
session.stop(spark)
"""
"""Starts Spark with a secret; prints what Spark has of it, and which processes show it."""


def test_secrets_of_spark_are_no_arguments_of_any_process(tmp_path: Path) -> None:
    """By reference, whatever the name; and literally, where the name says it. Values are what Java reads a file for."""
    secret = "pl4nted-spark-\\s3cret = #!: \u00fc\U0001f511 ${sys:user.name}"
    file = tmp_path / "secret"
    file.write_text(secret, encoding="utf-8")
    names = ["spark.hadoop.fs.s3a.secret.key", "spark.harmless", "spark.hadoop.other.password"]
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(file), json.dumps(names)],
        env={**os.environ, **jvm.QUICK},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"told": [secret] * 3, "seen": []}
    assert done.stderr.splitlines()[-1] == "False"
    assert secret not in done.stderr
