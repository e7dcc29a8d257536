"""One lane in this container: its life from start to end, and the supervision that keeps it running."""
