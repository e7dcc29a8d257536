"""An Iceberg catalog in a folder, and its tables as Polars' own reader sees them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pyiceberg.catalog import load_catalog

os.environ["POLARS_ICEBERG_PLANNER"] = "plugin"  # never pyiceberg's

__all__ = ["iceberg_catalog", "iceberg_rows"]


def iceberg_catalog(folder: Path) -> dict[str, str]:
    """Its properties. The folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def iceberg_rows(options: Mapping[str, Any]) -> pl.DataFrame:
    """All rows of the table of an output. pyiceberg says only where its metadata are."""
    found = load_catalog("default", **options["catalog"]).load_table(options["table"])
    return pl.scan_iceberg(found.metadata_location, reader_override="native").collect()
