"""Event time: durations, windows and a lane's watermark, as pure functions of plain data (docs/event-time.md)."""
