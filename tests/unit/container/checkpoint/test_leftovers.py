"""Which files of a lane's folder a killed process has left, by their names."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.container.checkpoint import leftovers
from anabranch.container.checkpoint.leftovers import Kind

UUID = "85a21cef-2c22-49c8-b909-e9ca04a59a10"
HEX = uuid.UUID(UUID).hex
BEGUN = ["metadata", "streams.json", "offsets/0", "commits/0"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f".metadata.{UUID}.tmp", Kind.SPARKS),
        (f"..metadata.{UUID}.tmp.crc", Kind.SPARKS),
        (f"offsets/.1.{UUID}.tmp", Kind.SPARKS),
        (f"offsets/..1.{UUID}.tmp.crc", Kind.SPARKS),
        (f"commits/.0.{UUID}.tmp", Kind.SPARKS),
        (f"sources/0/.0.{UUID}.tmp", Kind.SPARKS),
        (f"state/0/0/.1.changelog.{UUID}.TID4.tmp", Kind.SPARKS),
        (f"state/0/0/..1.zip.{UUID}.TID4.tmp.crc", Kind.SPARKS),
        (f"state/0/_metadata/v2/.0.{UUID}.tmp", Kind.SPARKS),
        (f"state/0/_stateSchema/default/.0_{UUID}.{UUID}.tmp", Kind.SPARKS),
        (f"offsets/0.{HEX}.part", Kind.OURS),
        (f"progress.json.{HEX}.part", Kind.OURS),
        (f"sources/0/0.{HEX}.part", Kind.OURS),
        (f"commits/.0.crc.{HEX}.part", Kind.OURS),
        ("offsets/.1.crc", Kind.CHECKSUM),
        (".metadata.gone.crc", Kind.CHECKSUM),
        ("state/0/0/2.changelog", Kind.UNCOMMITTED),
        ("state/0/1/left-keyToNumValues/2.zip", Kind.UNCOMMITTED),
        (f"state/0/0/2_{UUID}.changelog", Kind.UNCOMMITTED),
        ("state/0/_metadata/v2/1", Kind.UNCOMMITTED),
        (f"state/1/_stateSchema/default/1_{UUID}", Kind.UNCOMMITTED),
        ("offsets/0", None),
        ("offsets/.0.crc", None),
        ("metadata", None),
        ("progress.json", None),
        ("sources/0/0", None),
        ("state/0/0/1.changelog", None),
        ("state/0/0/1.zip", None),
        ("state/0/_metadata/v2/0", None),
        ("state/0/_metadata/metadata", None),
        ("state/0/0/SSTs/000008-9afdc40c-cb01-4f1b-8843-e5d64c51db2c.sst", None),
        (f"state/0/_stateSchema/default/0_{UUID}", None),
        ("what somebody has put there.tmp", None),
    ],
)
def test_leftovers_of_a_lane_that_has_begun(name: str, kind: Kind | None) -> None:
    found = leftovers.classify({*BEGUN, name})
    assert found == ({} if kind is None else {name: kind})
    assert leftovers.is_temporary(name) == (kind in (Kind.SPARKS, Kind.OURS))


@pytest.mark.parametrize("name", ["state/0/_metadata/metadata", "state/0/0/1.zip", "offsets/what", "commits/.0.x"])
def test_what_a_batch_has_written_is_a_leftover_if_none_was_planned(name: str) -> None:
    kept = ["metadata", "streams.json", "sources/0/0"]
    assert leftovers.classify([*kept, name]) == {name: Kind.UNPLANNED}
    assert leftovers.classify([*kept, name, "offsets/7", "commits/7"]) == {}
    assert leftovers.classify([*kept, name, "commits/7"]) == {}, "its offsets are lost: that is no leftover"


@pytest.mark.parametrize(
    ("batches", "left"),
    [
        (["offsets/0"], ["7", "8", "9", "schema", "metadata"]),
        (["offsets/0", "commits/0"], ["7", "8", "9"]),
        (["offsets/6", "offsets/7", "commits/6"], ["8", "9"]),
        (["offsets/6", "offsets/7", "commits/6", "commits/7"], ["9"]),
        (["offsets/6", "offsets/7"], ["8", "9"]),
    ],
)
def test_state_is_kept_up_to_the_last_batch_that_needs_no_other_run(batches: list[str], left: list[str]) -> None:
    """Where commits are lost, up to the one before the last that was planned."""
    files = {version: [f"state/0/0/{version}.changelog", f"state/0/0/.{version}.changelog.crc"] for version in "789"}
    files |= {"schema": ["state/0/0/_metadata/schema"], "metadata": ["state/0/_metadata/metadata"]}
    names = [*batches, *(name for each in files.values() for name in each)]
    assert leftovers.classify(names) == {name: Kind.UNCOMMITTED for each in left for name in files[each]}


FOLDERS = st.sampled_from(["", "offsets/", "commits/", "sources/0/", "state/0/1/", "state/0/_metadata/v2/"])
FILES = st.sampled_from(["0", "17", "metadata", "3.changelog", "9.zip", "streams.json", f"0_{UUID}"])
NAMES = st.builds(lambda folder, file: folder + file, FOLDERS, FILES)


def _temporary(name: str, own: bool, unique: uuid.UUID) -> str:
    folder, slash, file = name.rpartition("/")
    return f"{name}.{unique.hex}.part" if own else f"{folder}{slash}.{file}.{unique}.tmp"


@given(st.sets(NAMES, max_size=8), st.lists(st.tuples(NAMES, st.booleans(), st.uuids()), max_size=5))
def test_a_kill_adds_leftovers_and_changes_nothing_else(
    kept: set[str], cut_off: list[tuple[str, bool, uuid.UUID]]
) -> None:
    """Whatever was being written is a leftover, and nothing that was written before has become one by that."""
    written = {*kept, *(f"{folder}{slash}.{file}.crc" for folder, slash, file in (n.rpartition("/") for n in kept))}
    before = leftovers.classify(written)
    partial = {_temporary(*each) for each in cut_off}
    after = leftovers.classify(written | partial)
    assert after.keys() - before.keys() == partial
    assert {name: after[name] for name in before} == before
    assert not {name for name in before if leftovers.is_temporary(name)}
    left = (written | partial) - after.keys()
    assert leftovers.classify(left) == {}, "cleared once, it is clear"
