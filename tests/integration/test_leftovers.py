"""A lane starts in a folder with whatever a kill can have left there: each kind is put there by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job, Processor, Timers, ValueState
from anabranch.container.checkpoint import leftovers
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.folder import Folder
from anabranch.spark.query.publishing import Publishing
from tests.integration.harness import Deployed, Site, copying

UUID = "85a21cef-2c22-49c8-b909-e9ca04a59a10"
HEX = UUID.replace("-", "")
METADATA = json.dumps({"id": UUID})


def with_folder(site: Site, run: Deployed, files: dict[str, str | None]) -> Path:
    """Let the lane have a folder with these files, or folders (None), as the coordinator knows."""
    (lane,) = run.lanes
    run.lanes = [msgspec.structs.replace(lane, folder_epoch=1)]
    folder = Path(site.lane_folders.root, lane.job, lane.id, "1")
    folder.mkdir(parents=True)
    put(folder, files)
    return folder


def put(folder: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / name
        (path if text is None else path.parent).mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)


def left(folder: Path) -> dict[str, leftovers.Kind]:
    return leftovers.classify([str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()])


@pytest.mark.parametrize(
    "files",
    [
        {f"streams.json.{HEX}.part": "{"},
        {f".metadata.{UUID}.tmp": "{", f"..metadata.{UUID}.tmp.crc": "crc"},
        {"metadata": METADATA, f"..metadata.{UUID}.tmp.crc": "crc"},
        {"metadata": METADATA, "offsets": None, "commits": None},
        {"metadata": METADATA, f"offsets/.0.{UUID}.tmp": "v1", f"offsets/..0.{UUID}.tmp.crc": "crc"},
        {"metadata": METADATA, f"offsets/0.{HEX}.part": "v1"},
        {"metadata": METADATA, "offsets/.0.crc": "crc"},
        {"metadata": METADATA, f"sources/0/.0.{UUID}.tmp": "", f"sources/0/0.{HEX}.part": ""},
        {"metadata": METADATA, "state/0/0": None, "offsets": None},
        {"metadata": "", "sources/0/0": ""},
        {"metadata": METADATA, "state/0/0/1.zip": "of a batch that was forgotten", "state/0/_metadata/metadata": ""},
    ],
    ids=lambda files: " ".join(files).replace(UUID, "UUID").replace(HEX, "HEX"),
)
@pytest.mark.suite(cases=4)
def test_a_lane_begins_where_no_batch_was_planned(site: Site, files: dict[str, str | None]) -> None:
    run = copying(site)
    folder = with_folder(site, run, files)
    run.ran()
    assert [value["n"] for value in site.values("out")] == [0, 1, 2, 3, 4]
    assert left(folder) == {}


class Ranked(Processor):
    rank = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> list[dict[str, Any]]:
        self.rank.set(self.rank.get(0) + 1)
        return [{"k": message["k"], "rank": self.rank.get()}]


def test_a_lane_with_state_goes_on_among_the_leftovers_of_all_its_files(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", key="k string", schema="n int").process(Ranked(), schema="k string, rank long", name="r").write(
        "out"
    )
    run = site.deployed(job, state_partitions=1)
    site.put("in", 0, [{"n": n} for n in range(5)], [b"k"] * 5)
    run.ran()
    folder = Path(run.folder(run.lanes[0]).uri)
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert {path.relative_to(folder).parts[0] for path in files} >= {"offsets", "commits", "state", "metadata"}
    for path in files:
        (path.parent / f".{path.name}.{UUID}.tmp").write_text("half")
        (path.parent / f"..{path.name}.{UUID}.tmp.crc").write_text("crc")
        path.with_name(f"{path.name}.{HEX}.part").write_text("half")
    monkeypatch.setattr("anabranch.container.checkpoint.folder.cleared", set())  # as in another process
    put(folder, {"offsets/.1.crc": "crc", f"state/0/0/SSTs/000099-{UUID}.sst": "half"})
    site.put("in", 0, [{"n": n} for n in range(5, 9)], [b"k"] * 4)
    run.ran()
    assert [value["rank"] for value in site.values("out")] == list(range(1, 10))
    assert left(folder) == {}


@pytest.mark.long
def test_state_of_a_batch_is_that_of_its_last_run(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Killed after its state was written and before it was committed, it may come to another state: as here, where the
    function is another one by then."""
    step = tmp_path / "step"
    step.write_text("100")

    class Stepped(Processor):
        at = ValueState("long")

        def on_message(self, message: dict[str, Any], timers: Timers) -> list[dict[str, Any]]:
            self.at.set(self.at.get(0) + int(step.read_text()))
            return [{"k": message["k"], "at": self.at.get()}]

    site.log.create("in", 1)
    job = Job("j")
    job.read("in", key="k string", schema="n int").process(Stepped(), schema="k string, at long", name="s").write("out")
    run = site.deployed(job, state_partitions=1)
    site.put("in", 0, [{"n": 0}], [b"k"])
    with monkeypatch.context() as patch:
        patch.setattr(Publishing, "finish", lambda *_: 1 / 0)
        run.failure()
    assert run.folder(run.lanes[0]).pending
    step.write_text("1")
    for n in range(1, 3):
        run.ran()  # each time, the state is read from the folder
        site.put("in", 0, [{"n": n}], [b"k"])
    run.ran()
    assert [value["at"] for value in site.values("out")] == [1, 2, 3]


@pytest.mark.parametrize("local", [True, False])
def test_what_a_batch_has_left_stays_where_something_was_written(
    site: Site, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """Through Hadoop's file system, too, as on a root that isn't local."""
    if not local:
        monkeypatch.setattr(Tree, "local", None)
    put(site.root / "lane", {"metadata": METADATA, f"offsets/.0.{UUID}.tmp": "v1", "state/0/0/1.zip": "zip"})
    folder = Folder(site.spark, f"file://{site.root}/lane")
    folder.clear_leftovers(anew=False)
    assert sorted(folder.tree.all_files()) == ["metadata", "state/0/0/1.zip"]
    folder.clear_leftovers(anew=True)
    assert folder.tree.all_files() == ["metadata"]
    assert not (site.root / "lane/state").exists()


def test_a_lane_that_a_process_had_begun_ahead_begins_once_more(site: Site) -> None:
    """The coordinator doesn't know of the folder: whatever lies there is of a process that has died."""
    run = copying(site)
    (lane,) = run.lanes
    folder = Path(site.lane_folders.root, lane.job, lane.id, "1")
    put(folder, {"metadata": METADATA, "offsets/0": "v1\n{}\n-", f"commits/.0.{UUID}.tmp": "", "state/0/0/1.zip": ""})
    run.ran()
    assert Counter(value["n"] for value in site.values("out")) == Counter(range(5))
    assert left(folder) == {}


@pytest.mark.parametrize("published", [False, True])
def test_a_first_batch_begins_where_the_lane_began_though_the_inputs_have_other_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    """As those of a ``read`` that starts with the latest record, when the lane dies in its first batch."""
    run = copying(site)
    (ssp,) = (ssp.whole for ssp in run.lanes[0].ssps)
    run.starting = {ssp: 2}
    finish = Publishing.finish

    def interrupted(self: Publishing, *batch: Any) -> None:
        if published:
            finish(self, *batch)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Publishing, "finish", interrupted)
        assert "killed" in run.failure()
    site.put("in", 0, [{"n": 5}], [b"k"])
    run.starting = {ssp: 6}
    run.ran()
    assert [value["n"] for value in site.values("out")] == [2, 3, 4, 5]
