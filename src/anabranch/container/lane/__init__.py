"""One lane in this container: what it does from its start to its end, and who sees to it that it goes on."""
