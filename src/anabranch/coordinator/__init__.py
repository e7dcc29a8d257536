"""The coordinator: decides what each job should run, and stores these decisions. It contains no Spark and no user
code.
"""
