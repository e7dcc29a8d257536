"""Groupers determine which SSPs form a task. Only some groupers keep equal keys of several streams in one task."""
