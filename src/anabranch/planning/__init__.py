"""Plans a graph's stages, tasks and lanes, and the changes of a running job, with pure functions of plain data."""
