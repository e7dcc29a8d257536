"""The jobs that a coordinator serves: what is known of each, and the durable steps that take them on."""
