"""Outputs that are tables rather than streams. A lane's batch is one commit in each table for which it has rows. The
lane's marker in the table ensures that the batch is committed only once.
"""

from anabranch.tables import marks
from anabranch.tables.contract import Owner, RowWriter, Table
from anabranch.tables.marks import Mark

__all__ = ["Mark", "Owner", "RowWriter", "Table", "marks"]
