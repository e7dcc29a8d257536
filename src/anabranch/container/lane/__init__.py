"""One lane in this container: what it does from its start to its end, and what keeps it going."""
