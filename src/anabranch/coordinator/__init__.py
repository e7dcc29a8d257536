"""The coordinator: decides what each job should run, and stores these decisions. Uses no Spark, and runs no code of
users.
"""
