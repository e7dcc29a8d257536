"""Event time: durations, windows and a lane's watermark, as pure functions (docs/explanation/event-time.md)."""
