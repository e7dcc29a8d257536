"""The JobCoordinator: what each job should run, kept in a store. No Spark and no user code in it."""
