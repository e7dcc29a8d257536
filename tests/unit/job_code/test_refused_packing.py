"""Code that isn't packed: too much of it, files that can't be read, and a git that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, NotFoundError, OutOfTimeError, UsageError
from anabranch.job_code import artifact, listing
from tests.unit.job_code.archives import names_of, repo, write

__all__ = ["repo"]  # fixtures


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
    with pytest.raises(UsageError, match=r"pipe\.py: isn't an ordinary file"):
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
