"""The coordinator: decides what each job should run, and stores these decisions. It uses no Spark, and runs no code of
jobs. Of users' code, it only loads the classes of systems.
"""
