"""Event time and processing time: durations, windows, control records, and a lane's watermark and processing time, as
pure functions (docs/explanation/event-time.md).
"""
