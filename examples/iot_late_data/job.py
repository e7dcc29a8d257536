"""Computes the mean temperature of each sensor per quarter of an hour, although some gateways deliver hours late."""

from anabranch import Job, tumbling

job = Job("iot-late-data")

readings = job.read(
    "readings",
    key="sensor string",
    schema="celsius double, at timestamp",
    event_time="at",
    watermark="1 hour",
)

(
    readings.where("celsius between -60 and 80")
    .window(tumbling("15 minutes"), on_late="dead-letter")
    .agg(readings="count(*)", mean="avg(celsius)")
    .write("temperatures")
)
