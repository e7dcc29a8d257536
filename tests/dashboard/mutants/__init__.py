"""Pages that are broken in one place each, and the check that must see it.

``python -m tests.dashboard.mutants`` tries all of them, as ``python -m tests.soak`` does; the suite tries a few.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

__all__ = ["MUTANTS", "PATIENCE_MS", "Mutant", "seen"]

_SOURCES = ROOT / "dashboard"
PATIENCE_MS = 8_000
"""A page that is broken is waited for in vain."""


@dataclass(frozen=True)
class Mutant:
    """``file`` of the page's sources has ``new`` in place of ``old``, and ``check`` must fail. Without a file it is the
    coordinator that is another one."""

    name: str
    check: str
    file: str = ""
    old: str = ""
    new: str = ""

    def build(self, folder: Path) -> Path:
        """The page, built in a folder."""
        made, page = folder / "dashboard", folder / "page"
        shutil.copytree(_SOURCES, made, ignore=shutil.ignore_patterns("node_modules"))
        (made / "node_modules").symlink_to(_SOURCES / "node_modules")
        path = made / "src" / self.file
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.name}: {self.file} has {text.count(self.old)} times {self.old!r}"
        path.write_text(text.replace(self.old, self.new))
        subprocess.run(["node", "bundle.mjs", str(page)], cwd=made, check=True, capture_output=True)
        return page

    @property
    def function(self) -> Callable[..., object]:
        """The check itself."""
        module, _, name = self.check.partition("::")
        found: Callable[..., object] = getattr(importlib.import_module(f"tests.dashboard.{module}"), name)
        return found


def seen(mutant: Mutant, folder: Path) -> str:
    """Run the check of a mutant; gives what is wrong with it: empty if it fails, as it must."""
    changed = {"ANABRANCH_TEST_PAGE": str(mutant.build(folder))} if mutant.file else {"ANABRANCH_TEST_TRUSTING": "1"}
    environment = {**os.environ, "ANABRANCH_TEST_PATIENCE": str(PATIENCE_MS), **changed}
    module, _, name = mutant.check.partition("::")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header"]
    command += ["-m", ""]  # a check may be too long for the suite
    run = subprocess.run(
        [*command, f"tests/dashboard/{module}.py::{name}"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    # The check itself fails, or the page has reported an error by its end: not one while all is set up.
    if run.returncode == 1 and (" failed" in run.stdout or "assert broken == []" in run.stdout):
        return ""
    return f"{mutant.name}: {mutant.check} passes\n{run.stdout[-2_000:]}{run.stderr[-500:]}"


MUTANTS = (
    Mutant(
        "a font from elsewhere",
        "test_pages::test_nothing_leaves_the_coordinator_and_the_policy_holds",
        "index.html",
        '<link rel="icon" href="data:,">',
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="http://127.0.0.1:9/font.css">',
    ),
    Mutant(
        "a slow answer that is given up",
        "test_pages::test_an_answer_that_comes_slowly_is_waited_for",
        "api.ts",
        "    clearTimeout(timer);\n    text",
        "    text",
    ),
    Mutant(
        "an address from the root",
        "test_pages::test_each_page_is_reached_under_a_prefix_that_a_proxy_takes_off",
        "api.ts",
        "fetch(`../${path}`",
        "fetch(`/${path}`",
    ),
    Mutant(
        "a style in the markup",
        "test_pages::test_nothing_leaves_the_coordinator_and_the_policy_holds",
        "app.tsx",
        "  document.documentElement.dataset.theme = colours.value;",
        '  document.body.setAttribute("style", `color-scheme: ${colours.value}`);',
    ),
    Mutant(
        "markup out of data",
        "test_reading::test_text_from_outside_is_text",
        "parts/basics.tsx",
        '<bdi class="text">{shown(cut ?',
        '<bdi class="text" dangerouslySetInnerHTML={{ __html: of }}>{shown(cut ?',
    ),
    Mutant("a coordinator that trusts", "test_changing::test_another_site_changes_nothing_and_reads_nothing"),
    Mutant(
        "a token in the history",
        "test_pages::test_a_token_is_asked_for_kept_for_the_tab_and_never_in_the_address",
        "router.ts",
        'history.replaceState(null, "", next);',
        'history.pushState(null, "", next);',
    ),
    Mutant(
        "a change of whatever kind the address names",
        "test_changing::test_an_address_by_itself_changes_nothing",
        "pages/requests.ts",
        "return PLANNED.find((each) => each === word);",
        "return word as PlannedKind;",
    ),
    Mutant(
        "buttons for who may only read",
        "test_changing::test_who_may_only_read_is_offered_nothing_else",
        "session.ts",
        'return role.value !== "read";',
        "return true;",
    ),
    Mutant(
        "a prediction for a measurement",
        "test_changing::test_what_was_predicted_stays_beside_what_was_measured",
        "pages/changes.tsx",
        ": seconds(of.measuredPause)],",
        ": seconds(of.predictedPause)],",
    ),
    Mutant(
        "a change of whatever the job is",
        "test_changing::test_a_job_that_changed_meanwhile_is_planned_anew",
        "pages/review.tsx",
        "expect: plan.basis",
        "expect: undefined",
    ),
    Mutant(
        "each click counts",
        "test_changing::test_an_answer_that_is_lost_is_said_to_be_and_nothing_is_done_twice",
        "pages/review.tsx",
        '    if (state !== "idle") return;\n    setState("asked");',
        "",
    ),
    Mutant(
        "taken back after the end of time",
        "test_changing::test_a_drain_is_followed_stage_by_stage_and_can_be_taken_back_until_time_ends",
        "pages/drain.tsx",
        "{!drain.last && mayChange() && (",
        "{mayChange() && (",
    ),
    Mutant(
        "what isn't known is dead",
        "test_pages::test_a_coordinator_that_is_gone_is_said_to_be",
        "pages/containers.tsx",
        'data.served && current ? "alive" : "not known"',
        'data.served && current ? "alive" : "lost"',
    ),
    Mutant(
        "who froze is alive",
        "test_nights::test_a_frozen_container_is_seen_to_lose_its_seat_and_another_to_go_on",
        "pages/containers.tsx",
        'row.gone !== null ? "lost" : data',
        "data",
    ),
    Mutant(
        "rows by their places",
        "test_pages::test_rows_that_change_places_keep_who_has_the_focus",
        "parts/table.tsx",
        "key={id(row)}",
        "key={window_.from + at}",
    ),
    Mutant(
        "filters that nobody else sees",
        "test_pages::test_whatever_is_chosen_is_the_same_in_another_browser",
        "router.ts",
        "/** Take a token",
        "setTimeout(() => (route.value = { ...route.value, query: {} }));\n/** Take a token",
    ),
    Mutant(
        "the hour of the place for UTC",
        "test_nights::test_a_moment_is_typed_in_the_zone_of_the_page_and_is_utc_in_the_address",
        "pages/events.tsx",
        'text ? new Date(inZone(text)).toISOString().replace(".000Z", "Z") : ""',
        'text ? `${text.slice(0, 16)}:00Z` : ""',
    ),
    Mutant(
        "a state in colour alone",
        "test_pages::test_a_job_is_found_and_its_figures_are_shown",
        "parts/basics.tsx",
        "      <span>{shown(word)}</span>\n",
        "",
    ),
    Mutant(
        "the latest for the earliest",
        "test_pages::test_who_holds_event_time_back_is_named",
        "pages/partitions.tsx",
        "  const newest = Math.max(",
        "  const newest = Math.min(",
    ),
    Mutant(
        "a gap that is drawn over",
        "test_nights::test_three_in_the_morning_is_found_and_can_be_passed_on",
        "parts/plots.tsx",
        "spanGaps: false",
        "spanGaps: true",
    ),
    Mutant(
        "a clipboard that isn't there",
        "test_nights::test_three_in_the_morning_is_found_and_can_be_passed_on",
        "pages/events.tsx",
        "navigator.clipboard?.writeText(made)",
        "navigator.clipboard.writeText(made)",
    ),
    Mutant(
        "lanes that all began at the left",
        "test_looking_back::test_lanes_are_drawn_when_they_ran_and_out_of_which_they_came",
        "parts/bars.tsx",
        "const left = place(from, span);",
        "const left = place(span[0], span);",
    ),
    Mutant(
        "who leaves arrives",
        "test_looking_back::test_what_a_plan_moves_is_laid_over_the_matrix_and_nothing_is_done",
        "parts/canvas.ts",
        "[[its[each]!, false], [its[each + 1]!, true]]",
        "[[its[each]!, true], [its[each + 1]!, false]]",
    ),
    Mutant(
        "all that was looked at came early",
        "test_looking_back::test_what_a_drain_emitted_early_is_shown_and_foretold",
        "pages/early.tsx",
        '{counted(of.total, "row")} of the newest',
        '{counted(of.lookedAt, "row")} of the newest',
    ),
    Mutant(
        "an address out of what a container says",
        "test_looking_back::test_a_container_links_to_its_log_whatever_it_says_of_itself",
        "parts/links.tsx",
        'encodeURIComponent(values[name] ?? "")',
        'values[name] ?? ""',
    ),
)
