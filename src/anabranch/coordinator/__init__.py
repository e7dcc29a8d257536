"""The coordinator: decides what each job should run, and stores these decisions. It uses no Spark, and runs no code of
users.
"""
