"""Large orders, and the number of orders and the revenue for each product."""

from anabranch import Job

job = Job("orders")

# The message key of the stream holds the customer, the value is JSON with these fields.
# From here on, all of them are columns.
orders = job.read("orders", key="customer string", schema="product string, amount int")

# Conditions and columns are SQL. The message key stays as it is, and so do the messages of one key stay in order.
orders.where("amount >= 100").write("large-orders")

# A sum needs all orders of a product in one place: the product becomes the key.
by_product = orders.partition_by("product")

# agg gives a new row for a product whenever orders of it have come. The last one counts.
by_product.agg(orders="count(*)", revenue="sum(amount)").write("product-totals")
