"""The mean temperature of each sensor in each quarter of an hour, though some gateways deliver hours later."""

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
