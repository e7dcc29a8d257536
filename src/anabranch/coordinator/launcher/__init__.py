"""The launcher: starts containers as processes on the coordinator's machine, and ends them."""
