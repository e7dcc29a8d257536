"""The progress bar of a notebook, and what it leaves of the session's properties."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from anabranch.launch import notebook_progress

GROUP, DESCRIPTION, INTERRUPTS = "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"


class Context:
    """What a Spark context does with job groups."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties

    def setJobGroup(self, group: str, description: str) -> None:
        self.properties |= {GROUP: group, DESCRIPTION: description, INTERRUPTS: "false"}

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties.pop(name, None)
        if value is not None:
            self.properties[name] = value

    def statusTracker(self) -> Any:
        return SimpleNamespace(getJobIdsForGroup=lambda group: [])


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is displayed, in a process that is a notebook's kernel."""
    shown: list[str] = []
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    def show(text: str, display_id: bool) -> Any:
        shown.append(text)
        return SimpleNamespace(update=shown.append)

    display: Any = ModuleType("IPython.display")
    display.HTML, display.display = str, show
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


@pytest.mark.parametrize("before", [{}, {GROUP: "mine", DESCRIPTION: "my cell", INTERRUPTS: "true"}])
def test_the_session_has_the_same_properties_afterwards(bars: list[str], before: dict[str, str]) -> None:
    context = Context(dict(before))
    spark: Any = SimpleNamespace(sparkContext=context)
    with notebook_progress.shown(spark):
        assert context.properties[DESCRIPTION] == "anabranch: a cell of a notebook"
    assert context.properties == before
    assert len(bars) >= 2
