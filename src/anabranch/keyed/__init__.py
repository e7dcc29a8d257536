"""What a user writes a ``process`` with: a processor, its keyed state and its timers. Pure: no Spark."""
