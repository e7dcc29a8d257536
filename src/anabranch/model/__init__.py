"""The plain data everything is decided on: SSPs, tasks, containers, job models, lanes, graphs; and their JSON."""
