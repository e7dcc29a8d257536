"""What is in examples/deploy is what systemd and Kubernetes take, and agrees with what the program does."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyspark
import pytest
import typer
import yaml

from anabranch.cli import container, coordinator
from anabranch.cli.main import app
from anabranch.config import CoordinatorSettings
from anabranch.container import reconciler
from anabranch.coordinator.api import server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.launcher import launch_policy
from anabranch.coordinator.store import Store
from tests.support.paths import ROOT
from tests.support.pods import FOLDER, documents, pod_spec, resources

DEPLOY = ROOT / "examples" / "deploy"
EXECUTORS = FOLDER / "executors"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = "1.37"
WORKLOADS = ("Deployment", "StatefulSet")


def options(words: list[str]) -> None:
    """Check that a verb knows its options."""
    verbs = typer.main.get_group(app)
    known = verbs.get_command(typer.Context(verbs), words[1]).params  # type: ignore[union-attr]
    names = {option for each in known for option in each.opts}
    assert {word for word in words[2:] if word.startswith("--")} <= names


def unit(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {line.split("=", 1)[0]: line.split("=", 1)[1] for line in lines}


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in documents() if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


MANIFESTS = documents(*resources(), *resources(EXECUTORS))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_manifests_are_what_kubernetes_takes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_every_file_is_used() -> None:
    there = {path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml"}
    assert there == {*resources(), *resources(EXECUTORS), EXECUTORS / "driver.yaml"}


@pytest.mark.parametrize("components", [[], ["executors"]])
def test_kustomize_makes_of_it_what_kubernetes_takes(components: list[str], tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl")
    place = shutil.copytree(FOLDER, tmp_path / "kubernetes")
    wanted = yaml.safe_load((place / "kustomization.yaml").read_text()) | {"components": components}
    (place / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    done = subprocess.run([kubectl, "kustomize", str(place)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    for each in made:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    assert {each["kind"] for each in made} >= {*WORKLOADS, "PodDisruptionBudget"}
    images = {c["image"] for each in made if each["kind"] in WORKLOADS for c in containers(each)}
    assert images == {"registry.example/jobs:1"}
    if components:
        (driver,) = (each for each in made if each["kind"] == "Deployment")
        (container,) = containers(driver)
        given = [variable["name"] for variable in container["env"]]
        conf = next(each["value"] for each in container["env"] if each["name"] == "ANABRANCH__SPARK__CONF")
        needed = re.findall(r"\$\((\w+)\)", conf)
        assert set(given[: given.index("ANABRANCH__SPARK__CONF")]) >= set(needed)  # else they aren't filled in
        ports = {str(each["containerPort"]) for each in container["ports"]}
        settings = json.loads(conf)
        assert {settings["spark.driver.port"], settings["spark.blockManager.port"]} == ports
        account = driver["spec"]["template"]["spec"]["serviceAccountName"]
        (binding,) = (each for each in made if each["kind"] == "RoleBinding")
        (role,) = (each for each in made if each["kind"] == "Role")
        assert [each["name"] for each in binding["subjects"]] == [account]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]


def containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workload["spec"]["template"]["spec"]["containers"]
    return found


def test_a_manifest_with_a_field_that_there_isn_t_is_refused() -> None:
    manifest = named("Deployment", "delays-container")
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 75
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_manifests_fit_each_other_and_the_program() -> None:
    for each in documents():
        if each["kind"] in WORKLOADS:
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
            budget = named("PodDisruptionBudget", each["metadata"]["name"])
            assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
            assert budget["spec"]["maxUnavailable"] < each["spec"]["replicas"]
    leads, worker = named("StatefulSet", "anabranch-coordinator"), pod_spec("delays-container")
    (serves,), (runs,) = containers(leads), worker["containers"]
    service = named("Service", leads["spec"]["serviceName"])
    assert service["spec"]["clusterIP"] == "None"
    (port,) = service["spec"]["ports"]
    name, several = leads["metadata"]["name"], leads["spec"]["replicas"]
    at = f"{service['metadata']['name']}:{port['port']}"
    assert serves["args"][-2:] == ["--url", f"http://$(POD_NAME).{at}"]
    assert runs["args"][-2:] == ["--coordinator", ",".join(f"http://{name}-{n}.{at}" for n in range(several))]
    assert [each["containerPort"] for each in serves["ports"]] == [coordinator.PORT] == [port["port"]]
    routes = {route.path for route in server.app(Coordinator(Store("sqlite://"))).routes}  # type: ignore[attr-defined]
    assert {serves[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} <= routes
    for each in (serves, runs):
        options(each["args"])
        given = {variable["name"] for variable in each["env"]}
        settings = {name.removeprefix("ANABRANCH__COORDINATOR__") for name in given if name.startswith("ANABRANCH__")}
        assert {name.lower() for name in settings} <= CoordinatorSettings.model_fields.keys()
        references = [variable["value"] for variable in each["env"] if "${env:" in variable.get("value", "")]
        assert all(reference.split("${env:")[1].split("}")[0] in given for reference in references)


def test_the_image_is_that_of_the_manifests() -> None:
    lines = (DEPLOY / "image" / "Dockerfile").read_text().splitlines()
    (user,) = (int(line.split()[1]) for line in lines if line.startswith("USER"))
    (folder,) = (line.split()[1] for line in lines if line.startswith("WORKDIR"))
    for name in ("anabranch-coordinator", "delays-container"):
        spec = pod_spec(name)
        assert (spec["securityContext"]["runAsUser"], spec["containers"][0]["workingDir"]) == (user, folder)
    copied = {line.split()[1] for line in lines if line.startswith("COPY")}
    assert {path.name for path in (DEPLOY / "image").iterdir()} - {"Dockerfile"} <= copied


def test_the_image_runs_what_it_is_told_or_an_executor() -> None:
    command = runpy.run_path(str(DEPLOY / "image" / "entrypoint.py"))["command"]
    spark = Path(pyspark.__path__[0])
    assert command(["anabranch", "container", "delays"], {}, spark) == ["anabranch", "container", "delays"]
    given = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "anabranch-exec-3",
        "SPARK_CONF_DIR": "/opt/spark/conf",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 2, 0)},
    }
    java, *words = command(["executor"], given, spark)
    assert (java, words[:5]) == ("java", ["-Dn=0", "-Dn=2", "-Dn=10", "-Xms1024m", "-Xmx1024m"])
    assert words[words.index("-cp") + 1] == f"/opt/spark/conf:{spark}/jars/*"
    with zipfile.ZipFile(next((spark / "jars").glob("spark-kubernetes_*.jar"))) as jar:
        main = f"{words[words.index('-cp') + 2].replace('.', '/')}.class"
        assert main in jar.namelist()
    assert words[-2:] == ["--podName", "anabranch-exec-3"]


def test_everybody_waits_longer_than_a_container_needs_to_end() -> None:
    promised = container.STOPS_WITHIN
    assert promised > reconciler.ENDS_WITHIN
    assert pod_spec("delays-container")["terminationGracePeriodSeconds"] > promised
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
