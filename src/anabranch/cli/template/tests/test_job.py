"""Rows in, rows out: the job runs here as it does under ``anabranch run``, in a temporary folder."""

from job import job

from anabranch.testing import KILL, run

ORDERS = [
    {"customer": "ada", "product": "tea", "amount": 30},
    {"customer": "bob", "product": "tea", "amount": 120},
    {"customer": "ada", "product": "coffee", "amount": 50},
    {"customer": "ada", "product": "tea", "amount": 10},
]


def test_large_orders_pass():
    result = run(job, {"orders": ORDERS})
    assert result["large-orders"] == [{"customer": "bob", "product": "tea", "amount": 120}]


def test_totals_are_right_even_if_the_job_is_killed():
    result = run(job, {"orders": [*ORDERS[:3], KILL, *ORDERS[3:]]})
    assert result.latest("product-totals", "product") == {
        "tea": {"product": "tea", "orders": 3, "revenue": 160},
        "coffee": {"product": "coffee", "orders": 1, "revenue": 50},
    }
    assert len(result["large-orders"]) == 1
