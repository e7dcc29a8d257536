"""The coordinator: it decides what each job should run, and keeps that in a store. It contains no Spark and no user
code."""
