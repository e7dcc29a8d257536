"""Where things of this repository lie."""

from __future__ import annotations

from pathlib import Path

__all__ = ["EXCEPTIONS", "OLD_JOBS", "ROOT"]

ROOT = Path(__file__).resolve().parents[2]
OLD_JOBS = ROOT / "tests" / "acceptance" / "old_jobs"
EXCEPTIONS = ROOT / "tests" / "unit" / "container" / "failures"
"""Exceptions of a real Spark, whole, and excerpts of some."""
