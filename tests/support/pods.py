"""Pods of the manifests in examples/deploy/kubernetes, as processes of this machine: each has an address of loopback's,
and its commands, variables and probes are those of the manifests."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.acceptance.harness import Process, Workspace
from tests.support.paths import ROOT

__all__ = ["FOLDER", "Cluster", "Pod", "documents", "pod_spec", "resources"]

FOLDER = ROOT / "examples" / "deploy" / "kubernetes"
_NETWORK = "127.0.42."
_VARIABLE = re.compile(r"\$\((\w+)\)")


def resources(folder: Path = FOLDER) -> list[Path]:
    """The manifests that a kustomization names."""
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return [folder / name for name in named["resources"]]


def documents(*paths: Path) -> list[dict[str, Any]]:
    """What is in some manifests; default: in those of the base."""
    return [each for path in paths or resources() for each in yaml.safe_load_all(path.read_text())]


def pod_spec(name: str) -> dict[str, Any]:
    """That of a Deployment or a StatefulSet."""
    found: dict[str, Any] = next(
        each["spec"]["template"]["spec"]
        for each in documents()
        if each["metadata"]["name"] == name and "template" in each["spec"]
    )
    return found


@dataclass
class Pod:
    """One that runs. ``grace``: seconds that it has from SIGTERM on."""

    name: str
    process: Process
    grace: float
    probes: list[str]

    @property
    def is_ready(self) -> bool:
        """What the readiness probe finds."""
        try:
            return all(httpx.get(probe, trust_env=False, timeout=1).status_code == 200 for probe in self.probes)
        except httpx.TransportError:
            return False

    def delete(self) -> float:
        """End it as Kubernetes does when the pod is evicted: SIGTERM to its first process alone. Gives the seconds that
        it took."""
        begun = time.monotonic()
        self.process.popen.send_signal(signal.SIGTERM)
        code = self.process.popen.wait(self.grace)
        assert code == 0, self.process.stderr
        return time.monotonic() - begun


class Cluster:
    """``secrets``: by "secret/key". ``hosts``: where what isn't in the manifests is, by "host:port" there."""

    def __init__(
        self, workspace: Workspace, secrets: Mapping[str, str], hosts: Mapping[str, str], zones: Mapping[str, str]
    ) -> None:
        self.workspace = workspace
        self._secrets, self._hosts, self._zones = secrets, hosts, zones
        self._addresses: dict[str, str] = {}

    def urls(self, workload: str) -> str:
        """Of the pods of a StatefulSet, separated by commas."""
        (found,) = (each for each in documents() if each["metadata"]["name"] == workload and "replicas" in each["spec"])
        names = (f"{workload}-{number}" for number in range(found["spec"]["replicas"]))
        return ",".join(f"http://{self._address(name)}:8480" for name in names)

    def start(self, workload: str, name: str) -> Pod:
        """Start a pod. One of a StatefulSet keeps its name and address, however often it is started."""
        spec = pod_spec(workload)
        (container,) = spec["containers"]
        program, *words = [self._here(name, word) for word in _expanded(container["args"], self._variables(name))]
        assert program == "anabranch"
        variables = {key: self._here(name, value) for key, value in self._variables(name).items()}
        ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
        gets = [container["readinessProbe"]["httpGet"]] if "readinessProbe" in container else []
        probes = [f"http://{self._address(name)}:{ports[each['port']]}{each['path']}" for each in gets]
        process = self.workspace.start(*words, env=variables)
        return Pod(name, process, spec["terminationGracePeriodSeconds"], probes)

    def _variables(self, name: str) -> dict[str, str]:
        """A value may name variables that are defined before it."""
        (container,) = pod_spec(next(each for each in _workloads() if name.startswith(each)))["containers"]
        found: dict[str, str] = {}
        for each in container["env"]:
            given = each.get("valueFrom", {})
            if "secretKeyRef" in given:
                found[each["name"]] = self._secrets[f"{given['secretKeyRef']['name']}/{given['secretKeyRef']['key']}"]
            elif "fieldRef" in given:
                found[each["name"]] = self._field(name, given["fieldRef"]["fieldPath"])
            else:
                (found[each["name"]],) = _expanded([each["value"]], found)
        return found

    def _field(self, name: str, path: str) -> str:
        fields = {"metadata.name": name, "status.podIP": self._address(name)}
        fields["metadata.labels['topology.kubernetes.io/zone']"] = self._zones.get(name, "")
        return fields[path]

    def _here(self, name: str, text: str) -> str:
        """A text with the addresses that names have here; a pod has all addresses of its own to itself."""
        text = re.sub(r"\b([\w-]+-\d+)\.anabranch-coordinator\b", lambda found: self._address(found[1]), text)
        text = self._address(name) if text == "0.0.0.0" else text
        for there, here in self._hosts.items():
            text = text.replace(there, here)
        return text

    def _address(self, name: str) -> str:
        return self._addresses.setdefault(name, f"{_NETWORK}{10 + len(self._addresses)}")


def _workloads() -> list[str]:
    return [each["metadata"]["name"] for each in documents() if "template" in each["spec"]]


def _expanded(texts: list[str], variables: Mapping[str, str]) -> list[str]:
    return [_VARIABLE.sub(lambda found: variables[found[1]], text) for text in texts]
