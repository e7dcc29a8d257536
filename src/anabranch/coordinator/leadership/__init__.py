"""Which of several coordinators on one store leads, and what it does while it leads."""
