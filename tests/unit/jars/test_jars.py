"""Jars from a Maven repository: which repository, what is kept, and what is said where it can't be had."""

from __future__ import annotations

import hashlib
import pwd
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from anabranch import cache_dir, own_files
from anabranch.cli.main import app
from anabranch.errors import AnabranchError, ConfigError, DamagedError, UnreachableError, UsageError
from anabranch.formats import modules
from anabranch.jars import fetching, repository
from anabranch.jars.pinned import SETS, Jar, JarSet, jar_set
from anabranch.jars.repository import VARIABLE, Repository
from anabranch.systems.kafka import jars as kafka_jars

CONTENT = b"a jar"
SUM = hashlib.sha256(CONTENT).hexdigest()
TWO = JarSet("two", "two-1", (Jar(SUM, "org.one", "one_2.13", "1.0"), Jar(SUM, "other", "other", "2-3")))


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Repository]]:
    """The folder of a Maven repository, and where it is served; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "maven"
    for path in ("org/one/one_2.13/1.0/one_2.13-1.0.jar", "other/other/2-3/other-2-3.jar"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(CONTENT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, Repository(f"http://127.0.0.1:{server.server_port}", "a test")
    server.shutdown()
    server.server_close()


def test_what_was_fetched_is_not_fetched_again(served: tuple[Path, Repository]) -> None:
    lines: list[str] = []
    folder = fetching.fetch(TWO, served[1], lines.append)
    assert sorted(file.name for file in folder.iterdir()) == ["one_2.13-1.0.jar", "other-2-3.jar"]
    assert TWO.is_there
    assert fetching.fetch(TWO, Repository("http://127.0.0.1:1", "nobody"), lines.append) == folder
    assert len(lines) == 1
    assert [entry.name for entry in folder.parent.iterdir()] == ["two-1"]


@pytest.mark.parametrize("jars", [1, 2])
def test_what_another_process_has_put_there_meanwhile_stays(served: tuple[Path, Repository], jars: int) -> None:
    """The other process may be using it."""
    theirs = [TWO.folder / jar.file for jar in TWO.jars[:jars]]
    kept: list[int] = []

    def other(_: str) -> None:
        TWO.folder.mkdir(parents=True)
        for jar in theirs:
            jar.write_bytes(CONTENT)
        kept.extend(jar.stat().st_ino for jar in (TWO.folder, *theirs))

    folder = fetching.fetch(TWO, served[1], other)
    assert TWO.is_there
    assert [jar.stat().st_ino for jar in (folder, *theirs)] == kept
    assert [entry.name for entry in folder.parent.iterdir()] == ["two-1"]


@pytest.mark.parametrize("content", [b"", b"a ja", b"b jar"], ids=["empty", "cut off", "other"])
def test_a_jar_that_a_power_cut_has_damaged_is_replaced(served: tuple[Path, Repository], content: bytes) -> None:
    folder = fetching.fetch(TWO, served[1], lambda _: None)
    damaged, intact = (folder / jar.file for jar in TWO.jars)
    kept = intact.stat().st_ino
    damaged.write_bytes(content)
    assert not TWO.is_there
    assert fetching.fetch(TWO, served[1], lambda _: None) == folder
    assert damaged.read_bytes() == CONTENT
    assert intact.stat().st_ino == kept, "another process may be using it"
    assert TWO.is_there


def test_jars_are_durable_before_the_cache_has_them(
    served: tuple[Path, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(own_files, "sync", lambda path: synced.append((Path(path).name, TWO.folder.exists())))
    fetching.fetch(TWO, served[1], lambda _: None)
    assert sorted(synced[:2]) == [("one_2.13-1.0.jar", False), ("other-2-3.jar", False)]
    assert synced[2:] == [("two-1", False), ("anabranch", True)]


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has no home folder, as in many containers."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def unknown(_: int) -> NoReturn:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_a_user_without_a_home_is_told_to_name_a_cache(
    homeless: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"^there is no folder for anabranch's cache: HOME .*\n.*XDG_CACHE_HOME"):
        cache_dir.folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir.folder() == tmp_path / "anabranch"


def test_a_user_without_a_home_has_no_settings_of_maven(homeless: None) -> None:
    assert repository.chosen(environment={}).origin == "Maven Central"
    assert repository.chosen("https://given", {}).url == "https://given"


@pytest.mark.parametrize("kind", ["missing", "damaged", "unreachable"])
def test_what_cannot_be_had_leaves_the_cache_as_it_was(served: tuple[Path, Repository], kind: str) -> None:
    folder, source = served
    jar = folder / "other/other/2-3/other-2-3.jar"
    if kind == "missing":
        jar.unlink()
        error, text = AnabranchError, "has no other/other/2-3/other-2-3.jar: HTTP status 404"
    elif kind == "damaged":
        jar.write_bytes(b"another jar")
        error, text = DamagedError, "isn't the jar that anabranch was tested with"
    else:
        source = Repository("http://127.0.0.1:1", "a test")
        error, text = UnreachableError, "can't be fetched from http://127.0.0.1:1 (a test): "
    with pytest.raises(error) as caught:
        fetching.fetch(TWO, source, lambda _: None)
    assert text in caught.value.what
    assert VARIABLE in caught.value.cure
    assert not TWO.folder.exists()
    assert not list(TWO.folder.parent.iterdir())


def mirror(of: str, more: str = "") -> str:
    return f"<mirror><mirrorOf>{of}</mirrorOf><url>https://mirror/m2/</url>{more}</mirror>"


@pytest.mark.parametrize(
    ("mirrors", "expected"),
    [
        (mirror("*"), "https://mirror/m2"),
        (mirror("external:http:*", "<blocked>true</blocked>") + mirror("apache, central"), "https://mirror/m2"),
        (mirror("*,!central"), ""),
        (mirror("apache"), ""),
        ("", ""),
    ],
)
def test_the_mirror_of_a_settings_file(tmp_path: Path, mirrors: str, expected: str) -> None:
    central = repository.chosen(environment={}, home=tmp_path)
    file = tmp_path / ".m2" / "settings.xml"
    file.parent.mkdir()
    for namespace in ("", ' xmlns="http://maven.apache.org/SETTINGS/1.0.0"'):
        file.write_text(f"<settings{namespace}><mirrors>{mirrors}</mirrors></settings>")
        assert repository.chosen(environment={}, home=tmp_path).url == (expected or central.url)
        assert repository.chosen(environment={VARIABLE: "https://mine/"}, home=tmp_path).url == "https://mine"
    assert repository.chosen("https://given", {VARIABLE: "https://mine/"}, tmp_path).url == "https://given"


def test_the_login_of_a_repository_is_not_shown(served: tuple[Path, Repository]) -> None:
    folder, source = served
    lines: list[str] = []
    named = repository.chosen(source.url.replace("://", "://me:hunter2@"), {}, folder)
    (folder / "other/other/2-3/other-2-3.jar").write_bytes(b"another jar")
    for given in (named, Repository("http://me:hunter2@127.0.0.1:1", "a test")):
        with pytest.raises(AnabranchError) as caught:
            fetching.fetch(TWO, given, lines.append)
        assert "hunter2" not in str(caught.value)
        assert "http://***@127.0.0.1:" in str(caught.value)
    assert lines == [
        f"fetching the two jars (2) from {given} ..." for given in (str(named), "http://***@127.0.0.1:1 (a test)")
    ]
    with pytest.raises(UsageError, match=r"^ftp://\*\*\*@host \(--repository\) isn't the URL"):
        repository.chosen("ftp://me:hunter2@host", {}, folder)


def test_a_cache_that_cannot_be_written_is_told(
    served: tuple[Path, Repository], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(AnabranchError, match=r"file/anabranch/two-1 can't be made: Not a directory\n.*XDG_CACHE_HOME"):
        fetching.fetch(TWO, served[1], lambda _: None)


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^nowhere \(--repository\) isn't the URL"):
        repository.chosen("nowhere", {}, tmp_path)
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(UsageError, match=r"settings\.xml can't be read"):
        repository.chosen(environment={}, home=tmp_path)


def test_the_sets_are_what_others_look_for() -> None:
    connector, broker, avro = map(jar_set, SETS)
    assert {jar.artifact: jar.version for jar in connector.jars} == kafka_jars.CONNECTOR
    assert broker.folder_name == f"broker-{kafka_jars.BROKER}"
    assert f"kafka_2.13-{kafka_jars.BROKER}.jar" in {jar.file for jar in broker.jars}
    assert [jar.file for jar in avro.jars] == [f"spark-avro_2.13-{modules.AVRO}.jar"]


def test_a_set_that_nobody_knows(served: tuple[Path, Repository]) -> None:
    result = CliRunner().invoke(app, ["jars", "fetch", "kafka"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "there are no jars called kafka\n  choose from: connector, broker, avro"
