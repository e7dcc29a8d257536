"""Groupers: which SSPs form a task, and which groupers keep a key of several streams in one task."""
