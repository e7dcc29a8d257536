"""One lane in this container: what it does from start to end, and what keeps it running."""
