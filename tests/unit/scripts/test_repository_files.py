"""What GitHub, pre-commit and editors read of this repository is well-formed, and names what is there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

FORMS = sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*_*.yml"))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_issue_forms_have_what_github_asks_for(form: Path) -> None:
    content: dict[str, Any] = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= content.keys()
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    ids = [field["id"] for field in fields]
    assert len(ids) == len({*ids})
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_hooks_run_what_scripts_check_runs() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    checks = (ROOT / "scripts/check").read_text(encoding="utf-8").splitlines()
    for repository in config["repos"]:
        assert repository["repo"] == "local"  # nothing is fetched
        for hook in repository["hooks"]:
            bash, dash_c, script, _, *command = shlex.split(hook["entry"])
            assert (bash, dash_c, script) == ("bash", "-c", 'source scripts/env && exec "$@"')
            plain = [word for word in command if word != "--force-exclude"]
            assert " ".join(plain) in checks


def test_the_devcontainer_is_built_from_a_file_that_is_there() -> None:
    folder = ROOT / ".devcontainer"
    content = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    dockerfile = (folder / content["build"]["dockerfile"]).read_text(encoding="utf-8")
    assert f" {content['remoteUser']}\n" in dockerfile
