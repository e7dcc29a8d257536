"""The coordinator: decides what each job should run, and stores these decisions. It uses no Spark, and runs no code of
jobs. Of users' code, it loads only the classes of systems.
"""
