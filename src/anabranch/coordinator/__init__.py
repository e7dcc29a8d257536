"""The coordinator: decides what each job should run, and stores these decisions. It doesn't use Spark, and doesn't run
the code of jobs. The only user code that it loads is the classes of users' own systems.
"""
