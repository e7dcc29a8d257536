"""The JobCoordinator: what each job should run, kept in a store. It contains no Spark and no user code."""
