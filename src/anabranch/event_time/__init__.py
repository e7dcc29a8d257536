"""Event time and processing time: durations, windows, control records, and a lane's watermark and clock, as pure
functions (docs/explanation/event-time.md).
"""
