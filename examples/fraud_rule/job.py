"""Finds cards that are used in two countries within ten minutes."""

from datetime import timedelta

from anabranch import Job, MapState, Processor

job = Job("fraud-rule")
WITHIN = timedelta(minutes=10)


class TwoCountries(Processor):
    seen = MapState("string", "timestamp")
    """When the card was last used in each country."""

    def on_message(self, payment, timers):
        for country, at in list(self.seen.items()):
            if country != payment["country"] and abs(payment["at"] - at) <= WITHIN:
                yield {"card": payment["card"], "at": payment["at"], "countries": sorted([country, payment["country"]])}
        before = self.seen.get(payment["country"])
        if before is None or payment["at"] > before:
            self.seen.set(payment["country"], payment["at"])
            timers.register(payment["at"] + WITHIN)

    def on_timer(self, key, at, timers):
        # payments from now on are more than ten minutes later: old entries can go, so state doesn't grow forever
        for country, last in list(self.seen.items()):
            if last + WITHIN <= at:
                self.seen.delete(country)


payments = job.read(
    "payments",
    key="card string",
    schema="country string, amount int, at timestamp",
    event_time="at",
    watermark="1 minute",
)
(
    payments.process(
        TwoCountries(),
        schema="card string, at timestamp, countries array<string>",
        timers="event_time",
        name="two-countries",
    ).write("suspicions")
)
