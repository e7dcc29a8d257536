"""Which of several coordinators on one store leads, and what the leading coordinator does."""
