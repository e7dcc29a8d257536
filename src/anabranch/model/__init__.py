"""The plain data on which all decisions are based, and its JSON: SSPs, tasks, containers, job models, lanes, graphs."""
