"""Loads, checks and plans jobs before they start, for verbs and users' tests, and previews jobs in notebooks."""
