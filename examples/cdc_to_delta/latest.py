"""Prints the customers as they are now: the latest change of each customer, unless it is a deletion."""

from deltalake import DeltaTable

history = DeltaTable("tables/customer-history").to_pyarrow_table().to_pylist()
latest = {row["id"]: row for row in sorted(history, key=lambda row: (row["changed_at"], row["lsn"]))}
for row in latest.values():
    if not row["deleted"]:
        print(row["id"], row["name"], row["city"])
