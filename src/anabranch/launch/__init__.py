"""Turns a job file into a job that a coordinator can start, for verbs, users' tests, and previews in notebooks."""
