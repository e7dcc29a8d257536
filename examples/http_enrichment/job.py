"""Adds the customer's country to each order. A service gives the country over HTTP; many calls run at once."""

import os
from urllib.parse import quote

import httpx

from anabranch import Job

job = Job("http-enrichment")
customers = os.environ.get("CUSTOMERS_URL", "http://127.0.0.1:8099/customers")


async def with_country(order):
    # Each call has its own client, because a client belongs to one event loop, and each Spark task has its own loop.
    # After a crash, calls are repeated, so the service must only answer, and change nothing.
    async with httpx.AsyncClient(timeout=10) as client:
        answer = await client.get(f"{customers}/{quote(order['customer'], safe='')}")
    if answer.status_code == 404:
        return {**order, "country": None}
    answer.raise_for_status()  # an order that can't be enriched becomes a dead letter
    return {**order, "country": answer.json()["country"]}


orders = job.read("orders", key="customer string", schema="order long, amount int")
orders.map(with_country, schema="customer string, order long, amount int, country string").write("enriched-orders")
