"""``anabranch doctor``: what it says of Kafka, with a broker that is down or none that is asked for."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli import archiving, doctor
from anabranch.cli.main import app
from anabranch.errors import AnabranchError, UnsupportedSparkError
from anabranch.jars.pinned import JarSet, jar_set
from anabranch.jars.repository import VARIABLE
from anabranch.spark.internals.surface import Probe, Surface
from anabranch.spark.session import class_archive, java_program, session
from anabranch.systems.kafka import jars
from anabranch.systems.kafka.system import KafkaSystem
from tests.support.registry import serving

Found = dict[str, tuple[bool, str]]
Look = Callable[[str], Found]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """What doctor finds with these settings, by check, on a machine without anything of Kafka's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hasty = classmethod(lambda cls, name, settings, job: cls(settings.systems.kafka, patience=0.5))
    monkeypatch.setattr(KafkaSystem, "opened", hasty)
    monkeypatch.setattr(session, "probed", lambda _: [])

    def call(settings: str) -> Found:
        (tmp_path / "anabranch.toml").write_text(settings)
        result = CliRunner().invoke(app, ["doctor", "--json", "--config", str(tmp_path / "anabranch.toml")])
        found = {each["check"]: (each["ok"], each["found"]) for each in json.loads(result.stdout)}
        assert (result.exit_code == 0) == all(ok for ok, _ in found.values())
        return found

    return call


HANGS = "sleep 5\ntrue"
"""``sleep`` has the script's output, and goes on when the script is killed."""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def maven_prints(path: Path, lines: Sequence[str], code: int = 1) -> None:
    """Write a ``mvn`` that prints these lines."""
    path.write_text("\n".join(["#!/bin/sh", "cat <<'END'", *lines, "END", f"exit {code}\n"]))
    path.chmod(0o700)


def connector(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for artifact, version in jars.CONNECTOR.items():
        (folder / f"{artifact}-{version}.jar").touch()
    return folder


def expect_empty_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, jars without content have the right checksums."""

    def empty(name: str) -> JarSet:
        jars_of = jar_set(name)
        nothing = hashlib.sha256().hexdigest()
        return replace(jars_of, jars=tuple(replace(jar, sha256=nothing) for jar in jars_of.jars))

    monkeypatch.setattr(doctor, "jar_set", empty)


def test_a_storage_root_that_is_a_file_uri_is_that_folder(look: Look, tmp_path: Path) -> None:
    root = f"file:{tmp_path / 'lanes'}"
    assert look(f'[storage]\nroot = "{root}"\n')["storage root"] == (True, root)
    assert not Path("file:").exists()


def test_it_leaves_nothing_behind(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    found = look("")
    assert found["storage root"][0]
    assert found["embedded root"][0]
    assert [*empty.iterdir()] == []


def test_which_connector_is_used(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ok, said = look("")["kafka connector"]
    assert ok
    assert said.startswith(f"{jars.of_pyspark()}, which Spark gets from a Maven repository")
    cache = connector(tmp_path / "cache" / "anabranch" / "connector-4.2.0")
    assert look("")["kafka connector"] == (True, f"4 jars of anabranch jars fetch ({cache})")
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    for packages in ("", '\n[systems.kafka]\npackages = "a:b:1"'):
        ok, said = look(f'[systems]\ndefault = "kafka"{packages}')["kafka connector"]
        assert not ok
        assert said.startswith(f"jars in {cache} are missing or damaged\n")
        assert said.endswith("anabranch doctor --fix, or anabranch jars fetch connector")
    expect_empty_jars(monkeypatch)
    assert look('[systems]\ndefault = "kafka"')["kafka connector"] == (
        True,
        f"4 jars of anabranch jars fetch ({cache})",
    )
    mine = connector(tmp_path / "mine")
    (mine / "more.jar").touch()
    assert look('[systems.kafka]\njars = "mine"')["kafka connector"] == (
        True,
        f"5 jars of [systems.kafka] jars ({mine})",
    )
    ok, said = look('[systems.kafka]\njars = "nowhere"')["kafka connector"]
    assert not ok
    assert "nowhere, which isn't a folder" in said


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ("", False),
        ('[streams.a]\nformat = "raw"', False),
        ('[systems.embedded]\nroot = "here"', False),
        ('[systems]\ndefault = "kafka"', True),
        ('[streams.a]\nsystem = "kafka"', True),
        ('[systems.kafka]\nrack = "r1"', True),
    ],
)
@pytest.mark.suite(cases=3)
def test_a_broker_is_asked_where_one_is_wanted(
    look: Look, monkeypatch: pytest.MonkeyPatch, settings: str, asked: bool
) -> None:
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    assert ("kafka" in look(settings)) == asked


def test_a_broker_that_does_not_answer(look: Look) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ok, said = look(f'[systems.kafka]\nbootstrap_servers = "{address}"')["kafka"]
    assert not ok
    assert said.startswith(f"the Kafka cluster {address} didn't answer for 0.5 s: ")
    assert "[systems.kafka] bootstrap_servers" in said


def test_what_binary_formats_take(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not {"spark-avro", "schema registry"} & look("").keys()
    avro = tmp_path / "cache" / "anabranch" / "avro-4.1.1" / "spark-avro_2.13-4.1.1.jar"
    bound = '[streams.a]\nformat = "confluent"\n[streams.b]\nformat = "protobuf"\n'
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    monkeypatch.setenv("PATH", str(maven.parent), prepend=os.pathsep)
    for code, ok in ((0, True), (1, False)):
        maven_prints(maven, ["Could not find artifact org.apache.spark:spark-avro_2.13:jar:4.1.1 in central"], code)
        found = look(bound)
        assert found["spark-avro"][0] == ok
        assert found["spark-avro"][1].startswith("org.apache.spark:spark-avro_2.13:4.1.1")
    assert "isn't available from the Maven repository here" in found["spark-avro"][1]
    avro.parent.mkdir(parents=True)
    avro.touch()
    ok, said = look(bound)["spark-avro"]
    assert not ok
    assert said.startswith(f"jars in {avro.parent} are missing or damaged\n")
    expect_empty_jars(monkeypatch)
    assert look(bound)["spark-avro"] == (True, str(avro))
    with serving() as registry:
        registry.register("flights-value", {"type": "string"})
        url = registry.url
        assert look(f'[formats]\nregistry = "{url}"')["schema registry"] == (True, f"{url}, 1 subject(s)")
    ok, said = look(f'[formats]\nregistry = "{url}"')["schema registry"]
    assert not ok
    assert f"the schema registry {url} didn't answer" in said


def test_the_connector_is_asked_for_where_a_job_on_kafka_would_need_it(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    group, artifact, version = jars.of_pyspark().split(":")
    missing = [
        f"Failure to find {group}:{artifact}:jar:{version} in https://x was cached",
        "a:b:jar:1 was not found in x",
    ]
    maven_prints(maven, missing)
    monkeypatch.setenv("PATH", str(maven.parent), prepend=os.pathsep)
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    assert look("")["kafka connector"][0]
    ok, said = look('[systems]\ndefault = "kafka"')["kafka connector"]
    assert not ok
    assert said.startswith(
        f"{jars.of_pyspark()}, the Kafka connector of the PySpark that is installed, isn't available from the "
        "Maven repository here"
    )
    assert "anabranch jars fetch" in said
    ok, said = look('[systems]\ndefault = "kafka"\n[systems.kafka]\npackages = "a:b:1"')["kafka connector"]
    assert (ok, said.split(" isn't")[0]) == (False, "a:b:1")
    maven.write_text("#!/bin/sh\nexit 0\n")
    assert look('[systems]\ndefault = "kafka"')["kafka connector"][0]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [
                "[ERROR] Failed to execute x:get: Could not transfer artifact a:b:jar:1 from/to central -> [Help 1]",
                "[ERROR] ",
                "[ERROR] Re-run Maven using the -X switch to enable full debug logging.",
            ],
            "Failed to execute x:get: Could not transfer artifact a:b:jar:1 from/to central",
        ),
        (
            ["[ERROR] Could not find artifact org.apache.maven.plugins:maven-dependency-plugin:jar:3.6.1 in central"],
            "Could not find artifact org.apache.maven.plugins:maven-dependency-plugin:jar:3.6.1 in central",
        ),
        (["[ERROR] Could not find artifact a:b:jar:1.1 in x"], "Could not find artifact a:b:jar:1.1 in x"),
        (["[ERROR] https://me:s3cret@host refuses"], "https://me:***@host refuses"),
        (
            ["The JAVA_HOME variable is not defined,", "this is needed"],
            "The JAVA_HOME variable is not defined, / this is needed",
        ),
        ([], "nothing was printed"),
    ],
)
def test_a_maven_that_fails_is_not_told_as_a_repository_without_the_package(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], told: str
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven_prints(maven, lines)
    monkeypatch.setenv("PATH", str(maven.parent), prepend=os.pathsep)
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    ok, said = look('[systems]\ndefault = "kafka"\n[systems.kafka]\npackages = "a:b:1"')["kafka connector"]
    assert not ok
    assert said.startswith(f"a:b:1 can't be fetched with mvn: {told}\n")


def test_a_surface_of_spark_that_is_missing_fails_where_there_is_no_other_way(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower, special = Surface("slower", "speed", otherwise="it takes longer"), Surface("special", "something")
    found = [Probe(slower, "4.4.0"), Probe(special, "4.4.0")]
    monkeypatch.setattr(session, "probed", lambda _: found)
    assert look("")["spark internals"] == (True, "2 of 2 private surfaces are there")
    found[0] = Probe(slower, "4.4.0", "it has no class X")
    said = look("")
    assert said["spark internals"] == (True, "1 of 2 private surfaces are there")
    assert said["spark internals: slower"] == (True, "Spark 4.4.0: it has no class X; it takes longer")
    found[1] = Probe(special, "4.4.0", "it has no class Y")
    said = look("")
    assert not said["spark internals"][0]
    assert said["spark internals: special"] == (False, "Spark 4.4.0: it has no class Y; not available: something")

    def refuse(_: object) -> None:
        raise UnsupportedSparkError("Spark 4.4.0 can't be used for all jobs")

    monkeypatch.setattr(session, "probed", refuse)
    assert look("")["spark internals"] == (False, "Spark 4.4.0 can't be used for all jobs")

    monkeypatch.setenv("JAVA_HOME", str(Path(__file__).parent))
    said = look("")
    assert not said["java"][0]
    assert "spark internals" not in said, "without Java, nothing is known of Spark"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ("", None),
        ('[systems]\ndefault = "kafka"', "connector"),
        ('[streams.a]\nsystem = "kafka"', "connector"),
        ('[systems.kafka]\nrack = "r1"', "connector"),
        ('[systems.kafka]\njars = "mine"\n[streams.a]\nformat = "avro"', "avro"),
        ('[systems.kafka]\njars = "mine"', None),
        ('[systems.kafka]\npackages = "a:b:1"', None),
    ],
)
def test_fix_fetches_what_settings_need_and_do_not_name(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, wanted: str | None
) -> None:
    """The repository has nothing: the first jar that it refuses ends the fetching, so others may not be asked for."""
    connector(tmp_path / "mine")
    monkeypatch.setenv("PATH", str(script(tmp_path / "bin" / "mvn", "exit 0").parent), prepend=os.pathsep)
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    archived: list[object] = []
    monkeypatch.setattr(archiving, "make", archived.append)
    asked_for: list[str] = []

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked_for.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{server.server_port}")
    (tmp_path / "anabranch.toml").write_text(settings)
    result = CliRunner().invoke(app, ["doctor", "--fix", "--config", str(tmp_path / "anabranch.toml")])
    server.shutdown()
    server.server_close()
    assert set(asked_for) <= {f"/{jar.path}" for jar in jar_set(wanted).jars} if wanted else not asked_for
    failed = [line for line in result.stdout.splitlines() if line.startswith("FAIL") and "HTTP status 404" in line]
    assert [line.split(":")[0] for line in failed] == ([f"FAIL {wanted} jars"] if wanted else [])
    assert isinstance(result.exception, AnabranchError) == bool(asked_for) == bool(wanted)
    assert archived, "what can't be fetched doesn't end it"
    assert "ok   storage root" in result.stdout


@pytest.mark.parametrize(
    ("settings", "name"), [('[systems]\ndefault = "kafka"', "connector"), ('[streams.a]\nformat = "avro"', "avro")]
)
def test_fix_repairs_jars_that_a_power_cut_has_emptied(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, name: str
) -> None:
    wanted = jar_set(name)
    wanted.folder.mkdir(parents=True)
    for jar in wanted.jars:
        (wanted.folder / jar.file).touch()
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    monkeypatch.setattr(archiving, "make", lambda _: None)
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1")
    (tmp_path / "anabranch.toml").write_text(settings)
    result = CliRunner().invoke(app, ["doctor", "--fix", "--config", str(tmp_path / "anabranch.toml")])
    assert f"FAIL {name} jars: " in result.stdout, "they are to be fetched again"


def test_fix_goes_on_where_settings_name_no_jars(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    archived: list[object] = []
    monkeypatch.setattr(archiving, "make", archived.append)
    (tmp_path / "anabranch.toml").write_text('[systems.kafka]\njars = "nowhere"')
    result = CliRunner().invoke(app, ["doctor", "--fix", "--config", str(tmp_path / "anabranch.toml")])
    assert "FAIL kafka connector: " in result.stdout
    assert archived


def test_a_maven_that_hangs_is_not_waited_for(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script(tmp_path / "bin" / "mvn", HANGS).parent), prepend=os.pathsep)
    monkeypatch.setattr(doctor, "MAVEN_ENDS_WITHIN", 0.2)
    began = time.monotonic()
    monkeypatch.setattr(KafkaSystem, "checks", lambda _: {"kafka": lambda: "asked"})
    found = look('[streams.a]\nsystem = "kafka"\nformat = "avro"')
    for check in ("spark-avro", "kafka connector"):
        ok, said = found[check]
        assert ok
        assert said.endswith("(not checked: mvn is missing, or doesn't answer)")
    assert time.monotonic() - began < 5


def test_a_java_that_hangs_fails_its_check(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = script(tmp_path / "jdk" / "bin" / "java", HANGS)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setattr(java_program, "ENDS_WITHIN", 0.2)
    began = time.monotonic()
    found = look("")
    assert time.monotonic() - began < 5
    ok, said = found["java"]
    assert not ok
    assert said.startswith(f"{java} -version doesn't end within 0.2 s\n")
    assert "storage root" in found, "the other checks follow"
    java.chmod(0o600)
    assert look("")["java"][1].startswith(f"{java} can't be run: Permission denied\n")


def test_a_java_that_hangs_with_the_archive_fails_its_check(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = class_archive.path(java_program.resolve())
    archive.parent.mkdir(parents=True)
    archive.touch()
    monkeypatch.setattr(class_archive, "ENDS_WITHIN", 0.001)
    found = look("")
    ok, said = found["class archive"]
    assert not ok
    assert said.startswith(f"whether Java accepts {archive} can't be checked: ")
    assert "spark internals" in found


def test_an_archive_that_takes_too_long_is_given_up(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "MADE_WITHIN", 0.001)
    monkeypatch.setattr(class_archive, "is_accepted", lambda _: False)
    with pytest.raises(AnabranchError, match=r"^no archive of Spark's classes was made within 0\.001 s\n"):
        archiving.make(lambda _: None)
    assert [each for each in (tmp_path / "cache").rglob("*") if each.is_file()] == []


def test_whether_jvms_load_classes_from_an_archive(look: Look) -> None:
    ok, said = look("")["class archive"]
    assert ok
    assert said == "none; anabranch doctor --fix makes one, and then jobs start sooner"
    archive = class_archive.path(java_program.resolve())
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"something else")
    ok, said = look("")["class archive"]
    assert ok
    assert said == f"{archive}, which Java doesn't accept; anabranch doctor --fix makes one, and then jobs start sooner"
