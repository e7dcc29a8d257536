"""Groupers: which SSPs make a task, and which tasks keep a key of several streams together."""
