"""The jobs that a coordinator serves: their data, and the durable steps that advance them."""
