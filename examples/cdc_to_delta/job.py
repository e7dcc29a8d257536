"""Stores the changes to a database table, as Debezium reports them, in a Delta table: the history of each row."""

from anabranch import Job

job = Job("cdc-to-delta")

row = "struct<id long, name string, city string>"
changes = job.read(
    "customers",
    key="key string",  # the primary key, as JSON text: {"id":1}
    schema=f"op string, ts_ms long, source struct<lsn long>, before {row}, after {row}",
)

(
    changes.where("op in ('c', 'u', 'd', 'r')")  # created, updated, deleted, read by a snapshot
    .select(
        "coalesce(after, before).id as id",
        "timestamp_millis(ts_ms) as changed_at",
        "source.lsn as lsn",  # orders the changes of one millisecond
        "op = 'd' as deleted",
        "coalesce(after, before).name as name",
        "coalesce(after, before).city as city",
    )
    .write("customer-history")
)
