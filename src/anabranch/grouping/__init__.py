"""Groupers determine which SSPs form a task. Only some groupers keep the records of a key from several streams in one
task."""
