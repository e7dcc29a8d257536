"""Problems that are wrong, or that racks can't be used for; and the command line."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from typer.testing import CliRunner

from anabranch.cli.assign import app
from anabranch.errors import AnabranchError, ConfigError, NotFoundError, UsageError
from anabranch.planning.assignment.racks import matrix
from anabranch.planning.assignment.racks import problem as problems
from anabranch.planning.assignment.racks.problem import Container, Partition, Problem, Task
from anabranch.planning.assignment.racks.solver import solve
from tests.support.paths import ROOT
from tests.unit.planning.assignment.racks import helpers as referee


def document(**changes: Any) -> dict[str, Any]:
    partition = {"stream": "flights", "partition": 0, "racks": ["a", "b"], "weight": 1}
    return {
        "containers": [{"id": "c1", "rack": "a", "slots": 4, "tags": {}}],
        "tasks": [
            {
                "name": "Partition_0",
                "stage": "0",
                "stateful": True,
                "partitions": [partition],
                "state_partitions": [],
                "on": "c1",
                "standby_on": [],
            }
        ],
        "standbys": 0,
        "strategy": "min_traffic",
        "loads": "flexible",
        "mode": "sequential",
        "traffic_cost": 10,
        "non_overlap_cost": 1,
        "standby_order": "reliability",
        **changes,
    }


def task(**fields: Any) -> dict[str, Any]:
    return {**document()["tasks"][0], **fields}


def reading(**fields: Any) -> list[dict[str, Any]]:
    return [task(partitions=[{"stream": "flights", "partition": 0, "racks": ["a"], **fields}])]


BAD = [
    pytest.param(b"", "an assignment problem", id="empty"),
    pytest.param(b"\xff\xfe", "an assignment problem", id="not UTF-8"),
    pytest.param(b"[1, 2]", "Expected `object`", id="not an object"),
    pytest.param(b'{"containers": [' + b"[" * 100_000, "an assignment problem", id="nested"),
    pytest.param({"containers": []}, "no container", id="no containers"),
    pytest.param({"containers": [{"id": "c1"}, {"id": "c1"}]}, "2 containers named c1", id="two containers of a name"),
    pytest.param({"containers": [{"id": "c1", "slots": 0}]}, "$.containers[0].slots", id="no slots"),
    pytest.param({"containers": [{"id": "c1", "slots": 1.5}]}, "$.containers[0].slots", id="half a slot"),
    pytest.param(
        {"containers": [{"id": "c1", "rack": "a", "tags": {"zone": "x"}}, {"id": "c2", "rack": "a"}]},
        "container c2 has no tag zone",
        id="a tag that one lacks",
    ),
    pytest.param({"tasks": [task(), task()]}, "2 tasks named Partition_0", id="two tasks of a name"),
    pytest.param({"tasks": reading(weight=-1)}, "weight -1 in task Partition_0", id="negative weight"),
    pytest.param({"tasks": reading(weight=-0.5)}, "weight -0.5 in task Partition_0", id="negative fraction"),
    pytest.param({"tasks": reading(weight="much")}, "$.tasks[0].partitions[0].weight", id="weight in words"),
    pytest.param({"tasks": reading(weight=True)}, "$.tasks[0].partitions[0].weight", id="weight of truth"),
    pytest.param({"tasks": reading(weight=2**70)}, "", id="weight beyond 64 bits"),
    pytest.param({"tasks": reading(weight=1e300)}, "too large", id="weight beyond all"),
    pytest.param({"tasks": reading(weight=10**400)}, "too large", id="whole weight beyond all fractions"),
    pytest.param({"tasks": reading(weight=-(10**400))}, "a weight is 0 or more", id="the same below 0"),
    pytest.param(
        {"tasks": [*reading(weight=1e-300), task(name="other")]}, "too large", id="weight too fine beside a whole one"
    ),
    pytest.param({"tasks": reading(weight=2**60)}, "too large", id="weight too large for costs"),
    pytest.param({"tasks": [task(partitions=reading()[0]["partitions"] * 2)]}, "twice", id="a partition twice"),
    pytest.param({"traffic_cost": -1}, "$.traffic_cost", id="negative cost"),
    pytest.param({"standbys": -1}, "$.standbys", id="negative standbys"),
    pytest.param({"strategy": "best"}, "$.strategy", id="unknown strategy"),
    pytest.param({"stategy": "none"}, "stategy", id="unknown field"),
    pytest.param(
        {"strategy": "balance_subtopology", "tasks": [task(), task(name="other", stateful=False)]},
        "stage 0 has stateful and stateless tasks",
        id="a stage of both kinds",
    ),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_what_is_wrong_is_named(given: bytes | dict[str, Any], message: str) -> None:
    raw = given if isinstance(given, bytes) else json.dumps(document(**given)).encode()
    with pytest.raises(UsageError) as caught:
        solve(problems.read(raw))
    assert message in str(caught.value)
    assert caught.value.cure


@pytest.mark.parametrize("weight", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_weights_that_are_no_numbers(weight: str) -> None:
    raw = json.dumps(document(tasks=reading(weight=12345))).replace("12345", weight).encode()
    with pytest.raises(UsageError):
        problems.read(raw)


@pytest.mark.parametrize("weight", [math.nan, math.inf])
def test_weights_that_are_no_numbers_in_code(weight: float) -> None:
    partition = Partition(stream="in", partition=0, racks=("a",), weight=weight)
    with pytest.raises(ConfigError, match="in task t"):
        Problem(containers=(Container(id="c"),), tasks=(Task(name="t", partitions=(partition,)),))


@pytest.mark.parametrize(
    ("containers", "racks", "why"),
    [
        ([{"id": "c1", "rack": "a"}, {"id": "c2"}], ["a"], "container c2 has no rack"),
        ([{"id": "c1", "rack": "a"}], ["a", None], "a broker that has partition 0 of flights has no rack"),
        ([{"id": "c1", "rack": "a"}], [], "nothing is known of partition 0 of flights"),
    ],
)
def test_without_racks_it_goes_by_moves_and_says_why(containers: list[Any], racks: list[Any], why: str) -> None:
    answer = solve(problems.read(json.dumps(document(containers=containers, tasks=reading(racks=racks))).encode()))
    assert (answer.racks_used, answer.why_not, answer.traffic, answer.traffic_by_role) == (False, why, None, None)
    assert (answer.active, answer.cost, answer.gap) == ({"Partition_0": "c1"}, 0, 0)


def test_standbys_without_racks() -> None:
    """Balanced, apart from their actives, and where they were."""
    rng = random.Random(0)
    for _ in range(100):
        asked = referee.problem(rng, rng.randint(1, 12), rng.randint(2, 6), standbys=rng.randint(1, 3))
        nowhere = tuple(msgspec.structs.replace(one, rack=None) for one in asked.containers)
        asked = msgspec.structs.replace(asked, containers=nowhere, strategy="none")
        answer = solve(asked)
        count = referee.copies(asked)
        tasks = [one for one in asked.tasks if one.stateful]
        for one in tasks:
            assert len({answer.active[one.name], *answer.standby[one.name]}) == count + 1
        assert answer.gap == 0
        assert answer.spread == answer.most_spread == 0


def test_a_rack_that_no_broker_has_is_a_rack() -> None:
    answer = solve(problems.read(json.dumps(document(containers=[{"id": "c1", "rack": "moon"}])).encode()))
    assert (answer.racks_used, answer.traffic, answer.cost) == (True, 1, 10)


def test_nothing_to_assign() -> None:
    answer = solve(problems.read(json.dumps(document(tasks=[], standbys=2)).encode()))
    assert (answer.active, answer.loads, answer.cost, answer.gap) == ({}, {"c1": 0}, 0, 0)


def test_a_task_without_partitions_costs_nothing() -> None:
    answer = solve(problems.read(json.dumps(document(tasks=[task(partitions=[])])).encode()))
    assert (answer.traffic, answer.cost) == (0, 0)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["solve", *words])
    if isinstance(result.exception, AnabranchError):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_command_line_prints_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(document()))
    code, text = run(str(file), "--json")
    answer = json.loads(text)
    assert code == 0
    assert answer["seconds"] >= 0
    told = {
        name: answer[name] for name in ("active", "standby", "cost", "traffic", "lower_bound", "gap", "moved", "loads")
    }
    assert told == {
        "active": {"Partition_0": "c1"},
        "standby": {"Partition_0": []},
        "cost": 0,
        "traffic": 0,
        "lower_bound": 0,
        "gap": 0,
        "moved": 0,
        "loads": {"c1": 1},
    }
    assert answer["why"] == {"Partition_0": "stays in c1; all it reads has a replica in rack a"}
    code, text = run(str(file))
    assert "no assignment costs less" in text


def test_the_command_line_takes_another_strategy(tmp_path: Path) -> None:
    file = tmp_path / "problem.json"
    moved = [{"id": "c1", "rack": "x"}, {"id": "c2", "rack": "a"}]
    file.write_text(json.dumps(document(containers=moved)))
    assert "balance needs 0 moves of active tasks; the others save 9" in run(str(file))[1]
    assert json.loads(run(str(file), "--json")[1])["active"] == {"Partition_0": "c2"}
    assert json.loads(run(str(file), "--json", "--strategy", "none")[1])["active"] == {"Partition_0": "c1"}
    both = [task(), task(name="other", stateful=False)]
    file.write_text(json.dumps(document(tasks=both)))
    with pytest.raises(ConfigError, match="stage 0 has stateful and stateless tasks"):
        run(str(file), "--strategy", "balance_subtopology")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no file .*nowhere\.json"):
        run(str(tmp_path / "nowhere.json"))
    with pytest.raises(UsageError, match="can't be read"):
        run(str(tmp_path))
    large = tmp_path / "large.json"
    with large.open("wb") as out:
        out.truncate(100 * 2**20)
    with pytest.raises(UsageError, match=r"large\.json isn't an assignment problem"):
        run(str(large))


def test_traffic_from_rack_to_rack(tmp_path: Path) -> None:
    """In a: one near, one from its first replica's rack. In b: a changelog, from a rack without readers."""
    inputs = (
        Partition(stream="near", partition=0, racks=("b", "a"), weight=2),
        Partition(stream="far", partition=0, racks=("c", "b")),
    )
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b<&")),
        tasks=(
            Task(
                name="t",
                stateful=True,
                partitions=inputs,
                state_partitions=(Partition(stream="state", partition=0, racks=("d",), weight=0.5),),
            ),
        ),
        standbys=1,
    )
    found = matrix.matrix(asked, solve(asked))
    assert found is not None
    assert (found.sources, found.readers) == (["a", "b<&", "c", "d"], ["a", "b<&"])
    assert found.weights == {("a", "a"): 2, ("c", "a"): 1, ("d", "b<&"): 0.5}
    picture = ElementTree.fromstring(matrix.svg(found))
    told = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert told == ["read from →", "a", "b<&", "c", "d", "a", "2", "0", "1", "0", "b<&", "0", "0", "0", "0.5"]

    file, drawn = tmp_path / "problem.json", tmp_path / "traffic.svg"
    file.write_bytes(msgspec.json.encode(asked))
    code, text = run(str(file), "--svg", str(drawn))
    assert code == 0
    assert "read from (columns) by racks (rows)" in text
    assert drawn.read_text() == matrix.svg(found)
    with pytest.raises(UsageError, match="can't be written"):
        run(str(file), "--svg", str(tmp_path / "nowhere" / "traffic.svg"))
    file.write_text(json.dumps(document(containers=[{"id": "c1"}])))
    with pytest.raises(UsageError, match="container c1 has no rack"):
        run(str(file), "--svg", str(drawn))


def test_the_documented_problem_is_one() -> None:
    page = ROOT / "docs" / "reference" / "assignment-problems.md"
    answer = solve(problems.read(page.read_text().split("```json\n")[1].split("```")[0].encode()))
    assert (answer.active, answer.standby, answer.gap) == ({"Partition_0": "c1"}, {"Partition_0": ("c2",)}, 0)
