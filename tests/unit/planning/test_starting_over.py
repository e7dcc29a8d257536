"""Event time that starts over, after a drain or a rewind, also for lanes that continue for some that never began."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from anabranch import Job, tumbling
from anabranch.event_time import progress
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress, Upstream
from anabranch.model.job_model import JobModel
from anabranch.model.lane import AfterDrain, Lane, LaneState, Position, Rewind
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.planning.transition import after_drain, deploy, inheritance, opening, rewind
from anabranch.planning.transition.deploy import NextVersion
from tests.unit.planning.factory import around, new_id

PARTITIONS: dict[str, Any] = {"in": 4}
BEFORE, SINCE = 1_000_000, 2_000
"""Event times that lanes reached before, and have reached since event time started over. (In ms.)"""


def job(counts: bool = False) -> Job:
    """Two stages without state, or two of which the second one counts, and a third one with a window."""
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int, at timestamp", event_time="at", watermark="1 minute")
    second = rows.partition_by("n", name="first").where("n > 0")
    if counts:
        second.agg(n="max(n)", name="highest").write("most")
        return made
    windows = second.partition_by("k", name="second").window(tumbling("1 hour"))
    windows.agg(n="count(*)", emit="on_close", name="counted").write("out")
    return made


def planned(deployment: int, lanes: int, made: Job, factor: int = 1) -> NextVersion:
    found = planning.make(made.graph, replace(around(factor=factor, **PARTITIONS), lanes=lanes))
    model = msgspec.structs.replace(found.model, run_id=deployment)
    its = planning.lanes_of(found, 4, new_id)
    return NextVersion(deployment, model, tuple(msgspec.structs.replace(lane, deployment=deployment) for lane in its))


def read(lane: Lane) -> list[str]:
    return [str(ssp) for ssp in dict.fromkeys(wholes((*lane.ssps, *lane.broadcast)))]


def ended(lane: Lane, at: int) -> Lane:
    """A lane that has run, and has closed at one offset everywhere."""
    final = tuple(Position(ssp=ssp, offset=at) for ssp in dict.fromkeys(wholes((*lane.ssps, *lane.broadcast))))
    wrote = {f"embedded/{name}/{number}": at for name in lane.outputs for number in range(4)}
    return msgspec.structs.replace(
        lane, state=LaneState.CLOSED, folder_epoch=1, begun=True, ran=True, final=final, last_batch=3, wrote=wrote
    )


def bucket_of(lane: Lane, number: int) -> Lane:
    """A first lane after a reset, with one bucket of each partition of ``lane``."""
    ssps = tuple(ssp for ssp in lane.ssps if ssp.key_bucket == number)
    starting = tuple(Position(ssp=ssp, offset=50) for ssp in ssps)
    return msgspec.structs.replace(lane, id=new_id(), ssps=ssps, starting=starting, drained=AfterDrain())


@dataclass
class Lanes:
    """All lanes of the job, and what they left in their folders."""

    known: dict[str, Lane]
    left: dict[str, tuple[Progress, Collection[str]]]

    def close(self, lanes: Iterable[Lane], at: int, reached: int, cursor: int) -> None:
        """Close lanes that have run up to the event time ``reached``."""
        several = list(lanes)
        for lane in several:
            writers = [each.id for each in several if {ssp.stream for ssp in lane.ssps} & each.outputs.keys()]
            before = inheritance.inherited(lane, self.of(lane))
            gone = {ssp: each.gone for ssp, each in before.upstream.items()}
            upstream = {ssp: Upstream(cursor, dict.fromkeys(writers, reached), gone.get(ssp, {})) for ssp in read(lane)}
            maxima = dict.fromkeys(read(lane), reached)
            its = Progress(reached, {}, upstream) if writers else Progress(reached, maxima)
            self.left[lane.id] = its, read(lane)
            self.known[lane.id] = ended(lane, at)

    def of(self, lane: Lane) -> Mapping[str, tuple[Progress, Collection[str]]]:
        return {name: self.left[name] for name in lane.inherits}

    def next_version(self, lanes: int, made: Job, present: JobModel, began: Collection[str]) -> list[Lane]:
        """The lanes of the next version, opened. Of the lanes of the present version, only those in the groups' places
        ``began`` have run."""
        deployment = present.run_id + 1
        former = [lane for lane in self.known.values() if lane.deployment == present.run_id and not lane.final]
        change = deploy.deployed(planned(deployment, lanes, made), present, former, new_id)
        self.close([lane for lane in former if lane.id in began], at=70, reached=SINCE, cursor=12)
        void = [lane for lane in former if lane.id not in began]
        self.known |= {lane.id: opening.never_begun(lane, "another deployment follows") for lane in void}
        self.known |= {lane.id: rewind.opened(lane, self.known) for lane in change.lanes}
        return [self.known[lane.id] for lane in change.lanes]

    def later(self, lane: Lane, writers: Iterable[Lane], reached: int) -> Progress:
        """A lane's event time after these lanes have reported that they reached ``reached``."""
        begins = inheritance.inherited(lane, self.of(lane))
        told = [Control(each.id, reached, each.speaks_for, dict(each.beside)) for each in writers]
        known = {ssp: begins.upstream.get(ssp, Upstream()) for ssp in read(lane)}
        upstream = {ssp: each.after(told, 20) for ssp, each in known.items()}
        return progress.after(begins, dict.fromkeys(read(lane)), {}, upstream)


def ran(made: Job) -> tuple[Lanes, NextVersion]:
    first = planned(1, 2, made)
    lanes = Lanes({}, {})
    lanes.close(first.lanes, at=50, reached=BEFORE, cursor=9)
    return lanes, first


def rewound(lanes: Lanes, first: NextVersion) -> tuple[list[Lane], JobModel]:
    """The opened lanes of a rewind to the beginning that clears state, and the job model."""
    running = {name: msgspec.structs.replace(lane, state=LaneState.RUNNING) for name, lane in lanes.known.items()}
    to = {f"embedded/in/{number}": 0 for number in range(4)}
    change = rewind.rewound(job().graph, first.model, running, to, "clear", new_id)
    lanes.known |= {lane.id: lane for lane in change.lanes}
    lanes.known |= {lane.id: rewind.opened(lane, lanes.known) for lane in change.lanes}
    again = [lanes.known[lane.id] for lane in change.lanes]
    lanes.known |= {lane.id: msgspec.structs.replace(lane, final=()) for lane in again}
    return again, msgspec.structs.replace(change.model, run_id=1)


def firsts(lanes: Iterable[Lane]) -> set[str]:
    """The first lane of each stage."""
    return set({lane.stage: lane.id for lane in reversed(list(lanes))}.values())


@pytest.mark.parametrize("some_began", [False, True])
def test_after_a_drain_a_lane_that_merges_lanes_that_never_began_hears_no_lane_from_before(some_began: bool) -> None:
    lanes, _ = ran(job())
    second = planned(2, 2, job())
    begun = after_drain.begun(second.lanes, job().graph, lanes.known, new_id)
    lanes.known |= {lane.id: msgspec.structs.replace(lane, deployment=2) for lane in begun}
    third = lanes.next_version(1, job(), second.model, firsts(begun) if some_began else ())
    assert [len(lane.predecessors) for lane in third] == [2, 2, 1]
    begins = [inheritance.inherited(lane, lanes.of(lane)) for lane in third[:2]]
    assert [each.watermark for each in begins] == [None, None]
    assert begins[0].maxima == (dict.fromkeys(read(begun[0]), SINCE) if some_began else {})
    (middle,) = (lane for lane in third if lane.stage == third[1].stage)
    assert lanes.later(middle, third[:1], SINCE + 500).watermark == SINCE + 500


@pytest.mark.parametrize("drain", [True, False])
def test_what_lanes_have_left_since_event_time_started_over_counts_after_two_versions_that_never_began(
    drain: bool,
) -> None:
    """Otherwise, the lanes in the middle would never again hear writers that go on."""
    lanes, first = ran(job())
    if drain:
        second = planned(2, 2, job())
        begun = after_drain.begun(second.lanes, job().graph, lanes.known, new_id)
        lanes.known |= {lane.id: msgspec.structs.replace(lane, deployment=2) for lane in begun}
        again, present = list(begun), second.model
    else:
        again, present = rewound(lanes, first)
    third = lanes.next_version(1, job(), present, firsts(again))
    version = msgspec.structs.replace(planned(present.run_id + 1, 1, job()).model, run_id=present.run_id + 1)
    fourth = lanes.next_version(1, job(), version, ())
    before, after = ([inheritance.inherited(lane, lanes.of(lane)) for lane in each[:2]] for each in (third, fourth))
    assert after == before
    assert after[0].maxima == dict.fromkeys(read(again[0]), SINCE)
    writer = next(iter(firsts(again) & {lane.id for lane in again if lane.stage == third[0].stage}))
    assert [each.heard for each in after[1].upstream.values()].count({writer: SINCE}) == 2
    assert all(writer not in each.gone for each in after[1].upstream.values())


def test_in_a_new_job_a_lane_that_merges_one_that_never_began_takes_over_no_watermark() -> None:
    """Otherwise, the records of partitions that nobody has read yet would be late."""
    first = planned(1, 2, job())
    lanes = Lanes({lane.id: lane for lane in first.lanes}, {})
    second = lanes.next_version(1, job(), first.model, firsts(first.lanes))
    begins = inheritance.inherited(second[0], lanes.of(second[0]))
    assert (begins.watermark, begins.maxima) == (None, dict.fromkeys(read(first.lanes[0]), SINCE))
    older = {ssp: SINCE // 2 for ssp in read(second[0]) if ssp not in begins.maxima}
    assert progress.after(begins, dict.fromkeys(read(second[0]), 0), older, {}).watermark == SINCE // 2
    assert lanes.later(second[1], second[:1], SINCE).watermark == SINCE
    third = lanes.next_version(1, job(), msgspec.structs.replace(first.model, run_id=2), ())
    assert inheritance.inherited(third[0], lanes.of(third[0])) == begins


def test_a_partition_of_which_a_lane_that_never_began_had_keys_has_no_event_time() -> None:
    whole = planned(1, 1, job(), factor=2).lanes[0]
    began, void = (bucket_of(whole, number) for number in range(2))
    assert read(began) == read(void)
    lanes = Lanes({void.id: opening.never_begun(void, "another deployment follows")}, {})
    lanes.close([began], at=70, reached=SINCE, cursor=12)
    planned_lane = planned(2, 1, job()).lanes[0]
    merged = opening.opened(msgspec.structs.replace(planned_lane, predecessors=(began.id, void.id)), lanes.known)
    begins = inheritance.inherited(merged, lanes.of(merged))
    assert (begins.watermark, begins.maxima) == (None, {})


def test_after_a_drain_an_operator_that_a_version_adds_hears_no_lane_from_before() -> None:
    lanes, _ = ran(job())
    second = planned(2, 2, job())
    begun = after_drain.begun(second.lanes, job().graph, lanes.known, new_id)
    lanes.known |= {lane.id: msgspec.structs.replace(lane, deployment=2) for lane in begun}
    third = lanes.next_version(1, job(counts=True), second.model, ())
    (highest,) = (lane for lane in third if lane.group == "highest")
    assert (highest.afresh, highest.drained is not None and highest.drained.state) == (True, "")
    assert inheritance.inherited(highest, lanes.of(highest)).watermark is None
    assert lanes.later(highest, third[:1], SINCE).watermark == SINCE


@pytest.mark.parametrize("some_began", [False, True])
def test_after_a_rewind_a_lane_that_merges_lanes_that_never_began_starts_over(some_began: bool) -> None:
    """Otherwise, the records that are read again would be late."""
    lanes, first = ran(job())
    again, present = rewound(lanes, first)
    second = lanes.next_version(1, job(), present, firsts(again) if some_began else ())
    assert [len(lane.predecessors) for lane in second] == [2, 2, 1]
    begins = inheritance.inherited(second[0], lanes.of(second[0]))
    assert begins.watermark is None
    assert begins.maxima == (dict.fromkeys(read(again[0]), SINCE) if some_began else {})
    assert lanes.later(second[1], second[:1], SINCE + 500).watermark == SINCE + 500


def test_a_lane_that_merges_two_rewinds_has_the_lower_offsets_of_both() -> None:
    first = planned(1, 2, job())
    rewinds = (Rewind(to={"a": 4}, clear=True, after=("x", "y")), Rewind(to={"a": 3, "b": 6}))
    lanes = [msgspec.structs.replace(lane, rewind=each) for lane, each in zip(first.lanes, rewinds, strict=False)]
    known = {lane.id: opening.never_begun(lane, "another deployment follows") for lane in lanes}
    merged = msgspec.structs.replace(first.lanes[0], id="0-m", predecessors=tuple(known))
    assert opening.opened(merged, known).rewind == Rewind(to={"a": 3, "b": 6}, clear=True, after=("x", "y"))
