"""Groupers: which SSPs form a task, and which tasks keep a key of several streams together."""
