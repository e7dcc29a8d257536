"""Outputs that aren't streams: tables. Each batch of a lane is one commit, with a mark by which it happens once."""

from anabranch.tables import marks
from anabranch.tables.contract import Owner, RowWriter, Table
from anabranch.tables.marks import Mark

__all__ = ["Mark", "Owner", "RowWriter", "Table", "marks"]
