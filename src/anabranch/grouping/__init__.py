"""Groupers determine which SSPs form a task. With some groupers, but not with all, the records of a key are in one task
even if they are from several streams."""
