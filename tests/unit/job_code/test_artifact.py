"""A job's code is packed the same everywhere, and nothing is unpacked that wasn't packed so."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import AnabranchError, NotFoundError, OutOfTimeError, UsageError
from anabranch.job_code import artifact, listing


@pytest.fixture(autouse=True)
def no_git_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def names_of(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "x")


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_STORED) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return signed(buffer.getvalue())


def signed(content: bytes) -> tuple[bytes, str]:
    return content, hashlib.sha256(content).hexdigest()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


# What is packed


def test_without_git_python_and_toml_are_packed(tmp_path: Path) -> None:
    home = write(tmp_path / "home", names_of("job.py", "anabranch.toml", "lib/deep/a.py", "notes.md", "key.pem"))
    assert artifact.pack(home).names == ("anabranch.toml", "job.py", "lib/deep/a.py")


def test_in_a_work_tree_what_git_does_not_ignore_is_packed(repo: Path) -> None:
    ignored = {".gitignore": "secret*\nbuild/\n", "secret.py": "x", "build/a.py": "x"}
    home = write(repo, ignored | names_of("job.py", "lib/a.py", "lib/schema.avsc", "Ä ö.txt", "gone.py"))
    git(home, "add", "job.py", "gone.py")
    git(home, "commit", "-qm", "first")
    (home / "gone.py").unlink()
    assert artifact.pack(home).names == ("job.py", "lib/a.py", "lib/schema.avsc", "Ä ö.txt")


def test_a_folder_in_a_work_tree_is_packed_alone_and_by_the_rules_above_it(repo: Path) -> None:
    write(
        repo, {".gitignore": "*.key\n", "other.py": "x", "jobs/a/job.py": "x", "jobs/a/m/x.key": "x", "jobs/b.py": "x"}
    )
    assert artifact.pack(repo / "jobs" / "a").names == ("job.py",)


def test_a_fingerprint_is_of_python_files_and_of_nothing_else(repo: Path, tmp_path: Path) -> None:
    code = names_of("job.py", "lib/a.py")
    write(repo, code | names_of("README.md", "lib/schema.avsc"))
    image = write(tmp_path / "image", code | {"anabranch.toml": "[coordinator]"})
    assert artifact.fingerprint(image) == artifact.fingerprint(repo)
    (image / "job.py").write_text("another = 1")
    assert artifact.fingerprint(image) != artifact.fingerprint(repo)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="no Python files"):
        artifact.fingerprint(empty)


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"])
def test_what_a_git_hook_sets_does_not_lead_elsewhere(
    repo: Path, tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repo, {".gitignore": "b.py\n", "job.py": "x", "b.py": "x"})
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert artifact.pack(repo).names == ("job.py",)


UNPACKED = [
    ".env",
    ".venv/lib/a.py",
    ".anabranch/lane/a.py",
    "lib/.hidden/a.py",
    "lib/__pycache__/a.py",
    "environment/lib/a.py",
    "conda/lib/a.py",
]


@pytest.mark.parametrize("in_git", [True, False])
def test_hidden_folders_and_environments_are_never_packed(repo: Path, in_git: bool) -> None:
    home = write(repo, names_of("job.py", *UNPACKED, "environment/pyvenv.cfg", "conda/conda-meta/history"))
    if in_git:
        git(home, "add", "-f", ".")
    else:
        (home / ".git").rename(home / ".was_git")
    assert artifact.pack(home).names == ("job.py",)


@pytest.mark.parametrize(
    "name", ["a.parquet", "d/a.CSV", "a.csv.gz", "x.db", "x.db-wal", "a.zip", "lib/a.jar", "a.orc"]
)
def test_data_is_not_packed_even_if_it_is_committed(repo: Path, name: str) -> None:
    write(repo, names_of("job.py", name))
    git(repo, "add", ".")
    assert artifact.pack(repo).names == ("job.py",)


@pytest.mark.parametrize("name", ["a.avsc", "a.proto", "a.desc", "a.json", "a.yaml", "a.sql", "a.txt", "csv", "data"])
def test_schemas_and_text_are_packed(repo: Path, name: str) -> None:
    assert artifact.pack(write(repo, names_of("job.py", name))).names == tuple(sorted(["job.py", name]))


def test_what_was_unpacked_is_packed_as_it_came(repo: Path, tmp_path: Path) -> None:
    first = artifact.pack(write(repo, names_of("job.py", "schemas/one.avsc", "parts/two.txt")))
    folder = artifact.unpack(first.content, first.sha256, tmp_path / "cache")
    write(folder, names_of("left-behind.py", "parts/__pycache__/two.pyc"))
    assert artifact.pack(folder) == first


def test_a_repository_within_is_left_out(repo: Path) -> None:
    write(repo, names_of("job.py", "sub/a.py", "unadded/a.py"))
    for name in ("sub", "unadded"):
        git(repo / name, "init", "-q")
        git(repo / name, "add", ".")
        git(repo / name, "commit", "-qm", "first")
    git(repo, "add", "sub")
    assert artifact.pack(repo).names == ("job.py",)


@pytest.mark.parametrize("in_git", [True, False])
def test_a_link_to_a_file_that_is_packed_becomes_a_copy(repo: Path, tmp_path: Path, in_git: bool) -> None:
    home = repo if in_git else tmp_path / "home"
    write(home, {"job.py": "x", "lib/a.py": "text"})
    (home / "b.py").symlink_to("lib/a.py")
    packed = artifact.pack(home)
    assert packed.names == ("b.py", "job.py", "lib/a.py")
    assert contents(artifact.unpack(packed.content, packed.sha256, tmp_path / "cache"))["b.py"] == b"text"


@pytest.mark.parametrize("in_git", [True, False])
@pytest.mark.parametrize("to", ["../outside.py", "nowhere.py", ".hidden.py", "data.csv"])
def test_a_link_to_what_is_not_packed_is_refused(repo: Path, tmp_path: Path, in_git: bool, to: str) -> None:
    home = repo if in_git else tmp_path / "home"
    write(home, names_of("job.py", "../outside.py", ".hidden.py", "data.csv"))
    (home / "b.py").symlink_to(to)
    with pytest.raises(UsageError, match=r"b\.py: leads to .*, which isn't packed"):
        artifact.pack(home)


def test_a_folder_that_became_a_link_after_its_files_were_added_does_not_lead_out(repo: Path, tmp_path: Path) -> None:
    write(repo, names_of("job.py", "lib/a.py"))
    git(repo, "add", ".")
    (repo / "lib").rename(tmp_path / "lib")
    (repo / "lib").symlink_to(tmp_path / "lib")
    with pytest.raises(UsageError, match="which isn't packed"):
        artifact.pack(repo)


def test_links_to_folders_are_left_out(tmp_path: Path) -> None:
    home = write(tmp_path / "home", names_of("job.py", "../data/a.py"))
    (home / "data").symlink_to(tmp_path / "data")
    assert artifact.pack(home).names == ("job.py",)


# What can't be packed


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such folder"):
        artifact.pack(tmp_path / "nowhere")


@pytest.mark.parametrize("in_git", [True, False])
def test_nothing_to_pack(repo: Path, tmp_path: Path, in_git: bool) -> None:
    home = write(repo if in_git else tmp_path / "home", {".gitignore": "", "a.md" if not in_git else "a.csv": "x"})
    with pytest.raises(UsageError, match="what git knows of it is data" if in_git else r"no \*\.py or \*\.toml"):
        artifact.pack(home)


def test_a_folder_that_git_ignores_is_packed_as_if_there_were_no_git(repo: Path) -> None:
    home = write(repo, {".gitignore": "*", "job.py": "x", "a.md": "x"})
    assert artifact.pack(home).names == ("job.py",)


def test_too_much_names_the_three_largest_and_is_not_read(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"a.txt": 30_000_000, "b.txt": 1_000_000, "c.txt": 19_000_000, "d.txt": 20_000_000}
    for name, size in sizes.items():
        with (repo / name).open("wb") as file:
            file.truncate(size)
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        assert path.name not in sizes, f"{path} is read"
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(UsageError) as error:
        artifact.pack(repo)
    assert "70.0 MB to pack, at most 50 MB" in error.value.what
    assert error.value.what.endswith("a.txt (30.0 MB), d.txt (20.0 MB), c.txt (19.0 MB)")
    assert ".gitignore" in error.value.cure


def test_what_is_packed_can_be_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on the zip: names and headers count."""
    home = write(tmp_path / "home", {"job.py": "x" * 900})
    whole = len(artifact.pack(home).content)
    for limit in (whole, whole - 1):
        monkeypatch.setattr(artifact, "MAX_BYTES", limit)
        if limit == whole:
            packed = artifact.pack(home)
            artifact.unpack(packed.content, packed.sha256, tmp_path / "cache")
    with pytest.raises(UsageError, match="to pack, at most"):
        artifact.pack(home)


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_FILES", 2)
    with pytest.raises(UsageError, match="3 files to pack, at most 2"):
        artifact.pack(write(tmp_path / "home", names_of("a.py", "b.py", "c.py")))


def test_a_file_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write(tmp_path / "home", names_of("job.py"))

    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(AnabranchError, match=r"job\.py: can't be read: Permission denied"):
        artifact.pack(home)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    home = write(tmp_path / "home", names_of("job.py"))
    os.mkfifo(home / "pipe.py")
    with pytest.raises(UsageError, match=r"pipe\.py: is no ordinary file"):
        artifact.pack(home)


@pytest.mark.parametrize("name", [b"a\\b.py", b"a\nb.py", b"C:a.py", b"a\xff.py"])
def test_names_that_others_can_not_have(tmp_path: Path, name: bytes) -> None:
    home = write(tmp_path / "home", names_of("job.py"))
    (home / os.fsdecode(name)).touch()
    with pytest.raises(UsageError, match="isn't one everywhere"):
        artifact.pack(home)


def fake_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"git": f"#!/bin/sh\n{script}\n"})
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_a_git_that_fails_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write(tmp_path / "home", names_of("job.py"))
    fake_git(tmp_path / "bin", "echo 'fatal: detected dubious ownership' >&2; exit 128", monkeypatch)
    with pytest.raises(AnabranchError, match="git can't list the files: fatal: detected dubious"):
        artifact.pack(home)


def test_a_git_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write(tmp_path / "home", names_of("job.py"))
    fake_git(tmp_path / "bin", "exec sleep 100", monkeypatch)
    monkeypatch.setattr(listing, "GIT_SECONDS", 0.05)
    with pytest.raises(OutOfTimeError, match="git didn't list"):
        artifact.pack(home)


def test_without_git_on_the_machine_a_work_tree_is_a_folder(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, names_of("job.py", "a.txt"))
    monkeypatch.setenv("PATH", str(repo))
    assert artifact.pack(repo).names == ("job.py",)


# The same everywhere


def test_the_hash_is_of_names_and_contents_alone(tmp_path: Path) -> None:
    files = {"job.py": "import lib", "lib/ä.py": "", "lib.toml": "a = 1\n"}
    one = write(tmp_path / "one", files)
    two = write(tmp_path / "two", dict(reversed(files.items())))
    os.utime(two / "job.py", (1, 1))
    (two / "job.py").chmod(0o700)
    assert artifact.pack(one) == artifact.pack(two)
    (two / "lib.toml").write_text("a = 2\n")
    assert artifact.pack(one).sha256 != artifact.pack(two).sha256


def test_the_hash_is_that_of_other_machines(tmp_path: Path) -> None:
    """Of any Python, zlib and system. If this fails, artifacts that are stored no longer match their code."""
    home = write(tmp_path / "home", {"job.py": "print()\n", "lib/ä.py": "", "z.toml": "a = 1\n"})
    assert artifact.pack(home).sha256 == "1a07b914d49b81ae866b75d7959ccfccc4aa9e022ea3109e7b58720583cd4e4a"


PART = st.text("abcXYZ09_-ä語 ", min_size=1, max_size=5)
NAMES = st.builds(lambda parts, end: "/".join(parts) + end, st.lists(PART, min_size=1, max_size=3), st.just(".py"))


@given(st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_what_is_packed_comes_out_again(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, again = Path(folder, "home"), Path(folder, "again")
        write(home, files)
        packed = artifact.pack(home)
        assert packed.names == tuple(sorted(files))
        unpacked = artifact.unpack(packed.content, packed.sha256, Path(folder, "cache"))
        assert contents(unpacked) == files
        write(again, contents(unpacked))
        assert artifact.pack(again) == packed


# What is unpacked


def test_what_was_unpacked_is_used_again(tmp_path: Path) -> None:
    content, sha256 = zipped(("job.py", b"1"))
    assert artifact.unpacked(sha256, tmp_path) is None
    folder = artifact.unpack(content, sha256, tmp_path)
    assert folder == tmp_path / sha256 == artifact.unpacked(sha256, tmp_path)
    before = (folder / "job.py").stat()
    (folder / "__pycache__").mkdir()
    assert artifact.unpack(content, sha256, tmp_path) == folder
    assert (folder / "job.py").stat() == before


@pytest.mark.parametrize("damage", ["no marker", "empty marker", "missing", "changed", "a file", "a link"])
def test_what_is_not_whole_is_made_anew(tmp_path: Path, damage: str) -> None:
    content, sha256 = zipped(("job.py", b"1"), ("lib/a.py", b"2"))
    cache = tmp_path / "cache"
    folder = artifact.unpack(content, sha256, cache)
    match damage:
        case "no marker":
            (folder / ".whole").unlink()
        case "empty marker":
            (folder / ".whole").write_bytes(b"")
        case "missing":
            (folder / "lib" / "a.py").unlink()
        case "changed":
            (folder / "job.py").write_bytes(b"\0")
        case "a file":
            folder.rename(tmp_path / "aside")
            folder.touch()
        case "a link":
            folder.rename(tmp_path / "aside")
            folder.symlink_to(tmp_path / "nowhere")
    assert artifact.unpacked(sha256, cache) is None
    assert contents(artifact.unpack(content, sha256, cache)) == {"job.py": b"1", "lib/a.py": b"2"}
    assert artifact.unpacked(sha256, cache) == folder


@pytest.mark.parametrize(
    "text", ["a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 64 + "\n", "٣" * 64, "../" + "a" * 61, ""]
)
def test_what_is_no_hash_touches_no_path(tmp_path: Path, text: str) -> None:
    for use in (
        lambda: artifact.check_sha(text),
        lambda: artifact.unpack(b"", text, tmp_path / "cache"),
        lambda: artifact.unpacked(text, tmp_path / "cache"),
    ):
        with pytest.raises(UsageError, match="is no artifact's hash"):
            use()
    assert not (tmp_path / "cache").exists()


def test_a_hash_is_given_back() -> None:
    assert artifact.check_sha("0a" * 32) == "0a" * 32


def test_other_content_than_the_hash_says_is_refused(tmp_path: Path) -> None:
    content, _ = zipped(("job.py", b"1"))
    with pytest.raises(UsageError, match="what came has the hash"):
        artifact.unpack(content, "0" * 64, tmp_path)
    assert list(tmp_path.iterdir()) == []


def refused(content: bytes, sha256: str, tmp_path: Path, match: str) -> None:
    cache = tmp_path / "deep" / "cache"
    with pytest.raises(UsageError, match=match):
        artifact.unpack(content, sha256, cache)
    assert artifact.unpacked(sha256, cache) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [cache / f".{sha256}.lock"]


EVIL = [
    "../a.py",
    "lib/../../a.py",
    "lib/..",
    "..",
    "/etc/a.py",
    "//etc/a.py",
    "lib//a.py",
    "./a.py",
    "lib/",
    "..\\a.py",
    "C:a.py",
    "C:/a.py",
    ".whole",
    "lib/.hidden/a.py",
    "a\nb.py",
]


@pytest.mark.parametrize("name", EVIL)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    refused(*zipped(("ok.py", b""), (name, b"x")), tmp_path, "refused: .*(everywhere|below the job's folder)")


def test_a_name_in_an_extra_field_is_no_way_out(tmp_path: Path) -> None:
    """Python 3.13 takes a name from the field 0x7075; earlier ones don't look at it."""
    info = zipfile.ZipInfo("ok.py")
    evil = b"../evil.py"
    info.extra = struct.pack("<HHBL", 0x7075, 5 + len(evil), 1, zipfile.crc32(b"ok.py")) + evil
    content, sha256 = zipped((info, b"x"))
    renamed = zipfile.ZipFile(io.BytesIO(content)).infolist()[0].filename != "ok.py"
    if renamed:
        refused(content, sha256, tmp_path, "is also named")
    else:
        assert contents(artifact.unpack(content, sha256, tmp_path)) == {"ok.py": b"x"}
    assert list(tmp_path.rglob("evil.py")) == []


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("a.py")
    info.external_attr = (kind | 0o777) << 16
    refused(*zipped((info, b"/etc/passwd")), tmp_path, "no ordinary file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a", "a/b/c"), ("a/b/c", "a/b")])
def test_two_files_at_one_place_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    refused(*zipped((names[0], b"1"), (names[1], b"2")), tmp_path, "two of its files are at one place")


def test_a_bomb_is_refused_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_UNPACKED", 1_000_000)
    content, sha256 = zipped(("a", bytes(600_000)), ("b", bytes(400_000)), method=zipfile.ZIP_DEFLATED)
    artifact.unpack(content, sha256, tmp_path / "fits")
    content, sha256 = zipped(("a", bytes(600_000)), ("b", bytes(400_001)), method=zipfile.ZIP_DEFLATED)
    refused(content, sha256, tmp_path / "bomb", "more than 1 MB")


@pytest.mark.parametrize("says", [0, 10, 2**31])
def test_a_header_that_lies_about_the_size_is_no_help_to_a_bomb(
    tmp_path: Path, says: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "MAX_UNPACKED", 1_000_000)
    content, _ = zipped(("a", bytes(5_000_000)), method=zipfile.ZIP_DEFLATED)
    content = content.replace(struct.pack("<L", 5_000_000), struct.pack("<L", says))
    refused(*signed(content), tmp_path, "more than 1 MB" if says > 5_000_000 else "no sound archive")


def test_entries_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """A bomb of stored files: many entries in the directory, one local header."""
    content, _ = zipped(("a", bytes(60_000)))
    start = content.index(b"PK\x01\x02")
    entry = content[start : content.index(b"PK\x05\x06")]
    entries = b"".join(entry[:46] + name + entry[47:] for name in (b"a", b"b", b"c"))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 3, 3, len(entries), start, 0)
    refused(*signed(content[:start] + entries + tail), tmp_path, "no sound archive")


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_FILES", 2)
    refused(*zipped(("a", b""), ("b", b""), ("c", b"")), tmp_path, "3 files, at most 2")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression_is_refused(tmp_path: Path, method: int) -> None:
    refused(*zipped(("a", b"x"), method=method), tmp_path, "compressed by method")


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    refused(*signed(content), tmp_path, "no sound archive|nothing in it")


def test_content_above_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, sha256 = zipped(("a", b"x"))
    monkeypatch.setattr(artifact, "MAX_BYTES", len(content) - 1)
    with pytest.raises(UsageError, match="at most"):
        artifact.unpack(content, sha256, tmp_path)


SOUND = zipped(("job.py", b"print()" * 20), ("lib/a.py", b"x"), method=zipfile.ZIP_DEFLATED)[0]


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=200)
def test_a_damaged_archive_is_refused_or_harmless(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(SOUND)
    for at, byte in changes:
        damaged[at] = byte
    content, sha256 = signed(bytes(damaged))
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        try:
            artifact.unpack(content, sha256, cache)
        except UsageError:
            assert not (cache / sha256).exists()
        assert {path.name for path in Path(folder).iterdir()} == {"cache"}
        assert {path.name for path in cache.iterdir()} <= {sha256, f".{sha256}.lock"}


def test_a_cache_that_can_not_be_written(tmp_path: Path) -> None:
    content, sha256 = zipped(("a", b"x"))
    (tmp_path / "cache").touch()
    with pytest.raises(AnabranchError, match="can't be unpacked into"):
        artifact.unpack(content, sha256, tmp_path / "cache")


# Several processes, and their deaths

UNPACK = """
import sys
from pathlib import Path
from anabranch.job_code import artifact
content = Path(sys.argv[1]).read_bytes()
print("ready", flush=True)
sys.stdin.readline()
folder = artifact.unpack(content, sys.argv[2], Path(sys.argv[3]))
print(sum(1 for path in folder.rglob("*.py")), artifact.unpacked(sys.argv[2], Path(sys.argv[3])) == folder)
"""

FROZEN = """
import sys
from pathlib import Path
from anabranch.job_code import artifact
write = Path.write_text
def stop(path, text):
    write(path, text[: len(text) // 2])
    print("stopped", flush=True)
    sys.stdin.readline()
Path.write_text = stop
artifact.unpack(Path(sys.argv[1]).read_bytes(), sys.argv[2], Path(sys.argv[3]))
"""


def process(code: str, content: bytes, sha256: str, tmp_path: Path) -> subprocess.Popen[str]:
    (tmp_path / "content").write_bytes(content)
    words = [sys.executable, "-c", code, str(tmp_path / "content"), sha256, str(tmp_path / "cache")]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_unpack_at_once_end_with_one_sound_folder(tmp_path: Path, damaged: bool) -> None:
    content, sha256 = zipped(*((f"lib{n}/a.py", b"x" * 1000) for n in range(300)))
    if damaged:
        (artifact.unpack(content, sha256, tmp_path / "cache") / "lib7" / "a.py").unlink()
    processes = [process(UNPACK, content, sha256, tmp_path) for _ in range(3)]
    try:
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in processes:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        assert [each.communicate(timeout=60)[0] for each in processes] == ["300 True\n"] * 3
    finally:
        for each in processes:
            each.kill()
            each.communicate()
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {sha256, f".{sha256}.lock"}


def test_an_unpacking_that_is_killed_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    content, sha256 = zipped(("job.py", b"1"), ("lib/a.py", b"2"))
    cache = tmp_path / "cache"
    killed = process(FROZEN, content, sha256, tmp_path)
    try:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "stopped\n"
        assert artifact.unpacked(sha256, cache) is None
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    assert not (cache / sha256).exists()
    assert (cache / f".{sha256}.part" / "job.py").exists()
    assert contents(artifact.unpack(content, sha256, cache)) == {"job.py": b"1", "lib/a.py": b"2"}
    assert {path.name for path in cache.iterdir()} == {sha256, f".{sha256}.lock"}
