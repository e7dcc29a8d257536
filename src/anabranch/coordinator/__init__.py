"""The coordinator: decides what each job should run, and stores these decisions. A coordinator uses no Spark, and runs
no code of users.
"""
