"""From a graph to stages, tasks and lanes: pure functions of plain data."""
