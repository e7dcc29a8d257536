"""Outputs that are tables rather than streams. Each batch of a lane is one commit; the lane's marker ensures that the
batch is committed only once.
"""

from anabranch.tables import marks
from anabranch.tables.contract import Owner, RowWriter, Table
from anabranch.tables.marks import Mark

__all__ = ["Mark", "Owner", "RowWriter", "Table", "marks"]
