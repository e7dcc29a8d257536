"""Groupers determine which SSPs form a task. Some of them put all records of a key into one task, even if the records
are from several streams."""
