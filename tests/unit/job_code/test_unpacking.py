"""Nothing is unpacked that wasn't packed so, and what is not whole is unpacked anew."""

from __future__ import annotations

import io
import stat
import struct
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import AnabranchError, UsageError
from anabranch.job_code import artifact
from tests.unit.job_code.archives import contents, signed, write, zipped

PART = st.text("abcXYZ09_-ä語 ", min_size=1, max_size=5)
NAMES = st.builds(lambda parts, end: "/".join(parts) + end, st.lists(PART, min_size=1, max_size=3), st.just(".py"))


@given(st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=8))
@settings(max_examples=50)
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
        with pytest.raises(UsageError, match="isn't an artifact's hash"):
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
    refused(*zipped((info, b"/etc/passwd")), tmp_path, "an ordinary file")


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
@settings(max_examples=200)
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
