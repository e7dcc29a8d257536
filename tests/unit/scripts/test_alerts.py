"""The alert rules and the Grafana dashboard ask for metrics that there are, and each alert has its runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parsed

from anabranch.metrics import exposition
from tests.support.paths import ROOT

DEPLOY = ROOT / "examples" / "deploy"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "anabranch.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((DEPLOY / "grafana" / "anabranch.json").read_text())
QUERIES = [target["expr"].replace("$job", "delays") for panel in BOARD["panels"] for target in panel["targets"]]
RUNBOOK = ROOT / "docs" / "how-to" / "alert.md"
METRICS = ROOT / "docs" / "reference" / "metrics.md"
LABELS = {"job", "state", "stage", "lane", "container", "rack", "number", "stream", "deployment", "ssp"}


def names() -> set[str]:
    """All metrics of a coordinator; those of which there are no values now, too."""
    families = parsed(exposition([], 0, leads=True).decode())
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


def selectors(query: str) -> Iterator[tuple[str, set[str]]]:
    """Which metrics a query asks for, with the labels that it wants to have some value. It must be PromQL."""

    def walked(node: Any) -> Iterator[tuple[str, set[str]]]:
        if isinstance(node, promql_parser.VectorSelector):
            yield node.name, {each.name for each in node.matchers.matchers}
        for part in ("expr", "lhs", "rhs", "vector_selector", "args", "param"):
            inner = getattr(node, part, None)
            for each in inner if isinstance(inner, list) else [inner]:
                if each is not None and not isinstance(each, str | int | float):
                    yield from walked(each)

    yield from walked(promql_parser.parse(query))


CASES = [
    (case["alertname"], alert)
    for test in yaml.safe_load((DEPLOY / "prometheus" / "tests.yaml").read_text())["tests"]
    for case in test.get("alert_rule_test", ())
    for alert in case["exp_alerts"]
]


@pytest.mark.parametrize(("name", "alert"), CASES)
def test_the_cases_for_promtool_expect_the_texts_of_the_rules(name: str, alert: dict[str, Any]) -> None:
    (rule,) = (rule for rule in RULES if rule["alert"] == name)
    labels: dict[str, str] = alert["exp_labels"]
    summary = re.sub(r"{{ *\$labels\.(\w+) *}}", lambda found: labels[found[1]], rule["annotations"]["summary"])
    assert "{{" in summary or alert["exp_annotations"]["summary"] == summary


@pytest.mark.parametrize("query", [each["expr"] for each in RULES] + QUERIES)
def test_a_query_asks_for_what_there_is(query: str) -> None:
    found = list(selectors(query))
    assert found
    for name, labels in found:
        assert name in names()
        assert labels <= LABELS
    assert {label for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(", ")} <= LABELS


def test_what_is_asked_for_is_looked_at() -> None:
    """Otherwise the test above would say nothing."""
    query = 'sum by (job) (rate(anabranch_lane_rows{job="a"}[5m])) > 0 and absent(no_such_metric)'
    assert list(selectors(query)) == [("anabranch_lane_rows", {"job"}), ("no_such_metric", set())]
    assert "no_such_metric" not in names()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_names_its_runbook(rule: dict[str, Any]) -> None:
    said = rule["annotations"]
    path, _, anchor = said["runbook"].partition("#")
    assert ROOT / path == RUNBOOK
    assert anchor == rule["alert"].lower()
    assert f"\n## {rule['alert']}\n" in RUNBOOK.read_text()
    used = set(re.findall(r"\$labels\.(\w+)", said["summary"] + said.get("description", "")))
    assert used <= LABELS


def test_no_runbook_is_without_its_alert() -> None:
    headings = re.findall(r"^## (Anabranch\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert headings == [each["alert"] for each in RULES]


def test_the_reference_has_all_metrics() -> None:
    assert set(re.findall(r"^\| `(anabranch_\w+)`", METRICS.read_text(), re.MULTILINE)) == names()
