"""Event time (spec/event-time.md): durations, windows and a lane's watermark, as pure functions of plain data."""
