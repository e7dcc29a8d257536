"""Plans a graph's stages, tasks and lanes, and the changes of a running job. Pure functions of plain data."""
