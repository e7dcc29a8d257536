"""Stores the changes to a database table, as Debezium reports them, in a Delta table: the history of each row."""

from anabranch import Job

job = Job("cdc-to-delta")

row = "struct<name string, city string>"
changes = job.read("customers", key="id long", schema=f"op string, ts_ms long, before {row}, after {row}")

(
    changes.where("op in ('c', 'u', 'd', 'r')")  # created, updated, deleted, read by a snapshot
    .select(
        "id",
        "timestamp_millis(ts_ms) as changed_at",
        "op = 'd' as deleted",
        "coalesce(after, before).name as name",
        "coalesce(after, before).city as city",
    )
    .write("customer-history")
)
