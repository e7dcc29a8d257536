"""What of a job's folder is packed, the same on every machine, and how the archive is named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, UsageError
from anabranch.job_code import artifact, listing
from tests.unit.job_code.archives import contents, git, names_of, repo, write

__all__ = ["repo"]  # fixtures


# What is packed


def test_without_git_python_and_toml_are_packed(tmp_path: Path) -> None:
    home = write(tmp_path / "home", names_of("job.py", "anabranch.toml", "lib/deep/a.py", "notes.md", "key.pem"))
    assert artifact.pack(home).names == ("anabranch.toml", "job.py", "lib/deep/a.py")


def test_a_folder_that_disappears_while_files_are_listed_is_left_out(tmp_path: Path) -> None:
    """Such as a temporary folder of a process that runs there."""
    (tmp_path / "job.py").touch()
    for name in ("code", "scratch"):
        write(tmp_path / name, {"module.py": ""})
    found = [next(listed := listing.walked(tmp_path))]
    shutil.rmtree(tmp_path / "scratch")
    assert sorted([*found, *listed]) == ["code/module.py", "job.py"]


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


@pytest.mark.parametrize("below", ["", "jobs/a"])
def test_a_copied_worktree_without_its_repository_is_refused(tmp_path: Path, below: str) -> None:
    home = tmp_path / "copied" / below
    write(home, {"job.py": "x", "prices.json": "{}"})
    (tmp_path / "copied" / ".git").write_text("gitdir: /gone/.git/worktrees/copied\n")
    with pytest.raises(AnabranchError, match=r"although /.*/copied/\.git is there: fatal: not a git repository: /gone"):
        artifact.pack(home)
    (tmp_path / "copied" / ".git").unlink()
    assert artifact.pack(home).names == ("job.py",)


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
