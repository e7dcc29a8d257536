"""Large orders, and the number of orders and the revenue for each product."""

from anabranch import Job

job = Job("orders")

# The message key of the stream is the customer; the value is JSON with these fields.
# From here on, key and fields are columns.
orders = job.read("orders", key="customer string", schema="product string, amount int")

# Conditions and columns are SQL. The message key doesn't change, so the messages of each customer stay in order.
orders.where("amount >= 100").write("large-orders")

# A sum needs all orders of a product in one place, so the product becomes the key.
by_product = orders.partition_by("product")

# agg emits a new row for a product whenever it has new orders. The latest row has the current totals.
by_product.agg(orders="count(*)", revenue="sum(amount)").write("product-totals")
