"""The tour fits a terminal of 80 columns, and of fewer."""

from __future__ import annotations

import io
import sys

import pytest

from anabranch.tour.screen import Screen


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Screen()
    screen.chapter("A chapter", "with a text that goes on " * 9)
    screen.command("anabranch plan scale delays --factor 16 --containers 3 --config anabranch.toml --json")
    screen.output("│ lane │ stage │" * 30 + "\n━━━━━━━\n[coordinator] url\n")
    screen.gauge(50, 100, "12,345 arrived")
    screen.table([("what was promised " * 4, "what was measured " * 4, True), ("a", "b", False)])
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert max(map(len, lines)) <= min(columns, 80)
    assert "[coordinator] url" in printed
    assert not any(line.strip("━ ") == "" and "━" in line for line in lines)
    assert "right" in printed
    assert "WRONG" in printed


def test_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    screen = Screen()
    screen.output("│ factor 1 → 16 │")
    screen.table([("promised", "measured", True)])
    sys.stdout.flush()
    assert "? factor 1 ? 16 ?" in raw.getvalue().decode("ascii")


def test_an_address_is_on_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    Screen().link("Look:", address := f"http://127.0.0.1:8480/ui/#/{'x' * 80}")
    assert f"   {address}\n" in capsys.readouterr().out


def test_step_waits_for_enter_before_each_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", pressed := io.StringIO("\n\n"))
    screen = Screen(step=True)
    screen.command("anabranch stream create flights")
    assert pressed.tell() == 1
    screen.output("made")
    screen.command("anabranch coordinator &")
    assert pressed.tell() == 2
    assert capsys.readouterr().out.count("press Enter") == 2


def test_step_ends_where_nobody_can_press_enter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    screen = Screen(step=True)
    for command in ("first", "second"):
        screen.command(command)
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines] == ["$ first", "press Enter to run it", "$ second"]


def test_without_step_nothing_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", pressed := io.StringIO("\n"))
    Screen().command("anabranch coordinator &")
    assert pressed.tell() == 0
    assert "Enter" not in capsys.readouterr().out
