"""Groupers determine which SSPs form a task. Only some of them keep a key of several streams in one task."""
