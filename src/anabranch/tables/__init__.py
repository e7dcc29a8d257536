"""Outputs that are tables rather than streams. Each batch of a lane is one commit, and its mark makes it happen
once.
"""

from anabranch.tables import marks
from anabranch.tables.contract import Owner, RowWriter, Table
from anabranch.tables.marks import Mark

__all__ = ["Mark", "Owner", "RowWriter", "Table", "marks"]
