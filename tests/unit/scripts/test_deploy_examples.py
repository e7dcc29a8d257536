"""What is in examples/deploy is what systemd and Kubernetes take, and agrees with what the program does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from anabranch.cli import container, coordinator
from anabranch.cli.main import app
from anabranch.config import CoordinatorSettings
from anabranch.container import reconciler
from anabranch.coordinator import launch_policy
from anabranch.coordinator.api import server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from tests.support.paths import ROOT

DEPLOY = ROOT / "examples" / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = "1.37"


def documents() -> list[dict[str, Any]]:
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each["spec"]["template"]["spec"]
        for each in documents()
        if each["kind"] == "Deployment" and each["metadata"]["name"] == name
    )
    return found


def options(words: list[str]) -> None:
    """Check that a verb knows its options."""
    verbs = typer.main.get_group(app)
    known = verbs.get_command(typer.Context(verbs), words[1]).params  # type: ignore[union-attr]
    names = {option for each in known for option in each.opts}
    assert {word for word in words[2:] if word.startswith("--")} <= names


def unit(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {line.split("=", 1)[0]: line.split("=", 1)[1] for line in lines}


@pytest.mark.parametrize("manifest", documents(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_manifests_are_what_kubernetes_takes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_manifest_with_a_field_that_there_isn_t_is_refused() -> None:
    (manifest,) = yaml.safe_load_all((DEPLOY / "kubernetes" / "container.yaml").read_text())
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 75
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_manifests_fit_each_other_and_the_program() -> None:
    service = next(each for each in documents() if each["kind"] == "Service")
    leads, worker = pod("anabranch-coordinator"), pod("delays-container")
    (serves,), (runs,) = leads["containers"], worker["containers"]
    for each in documents():
        if each["kind"] == "Deployment":
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    url = f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert serves["command"][-2:] == ["--url", url]
    assert runs["command"][-2:] == ["--coordinator", url]
    assert [each["containerPort"] for each in serves["ports"]] == [coordinator.PORT]
    routes = {route.path for route in server.app(Coordinator(Store("sqlite://"))).routes}  # type: ignore[attr-defined]
    assert {serves[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} <= routes
    for each in (serves, runs):
        options(each["command"])
        given = {variable["name"] for variable in each["env"]}
        settings = {name.removeprefix("ANABRANCH__COORDINATOR__") for name in given if name.startswith("ANABRANCH__")}
        assert {name.lower() for name in settings} <= CoordinatorSettings.model_fields.keys()
        references = [variable["value"] for variable in each["env"] if "${env:" in variable.get("value", "")]
        assert all(reference.split("${env:")[1].split("}")[0] in given for reference in references)


def test_everybody_waits_longer_than_a_container_needs_to_end() -> None:
    promised = container.STOPS_WITHIN
    assert promised > reconciler.ENDS_WITHIN
    assert pod("delays-container")["terminationGracePeriodSeconds"] > promised
    assert float(unit(DEPLOY / "systemd" / "anabranch-container@.service")["TimeoutStopSec"]) > promised
    assert promised < launch_policy.ENDS_WITHIN


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_what_systemd_takes(path: Path, tmp_path: Path) -> None:
    """Whatever is there to be run: systemd looks for the program."""
    words = unit(path)["ExecStart"].split()
    assert Path(words[0]).name == "anabranch"
    options(words)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        assert {"ExecStart", "Restart", "KillMode", "TimeoutStopSec", "WantedBy"} <= unit(path).keys()
        return
    copy = tmp_path / path.name.replace("@", "@delays")
    copy.write_text(path.read_text().replace(words[0], "/bin/true"))
    verified = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (verified.returncode, [line for line in verified.stderr.splitlines() if path.stem in line]) == (0, [])


def test_signals_reach_a_container_alone_and_no_container_of_a_coordinator() -> None:
    assert unit(DEPLOY / "systemd" / "anabranch-container@.service")["KillMode"] == "mixed"
    assert unit(DEPLOY / "systemd" / "anabranch-coordinator.service")["KillMode"] == "process"
