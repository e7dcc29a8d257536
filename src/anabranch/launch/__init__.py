"""The path from a job file to a job that a coordinator can start: for the verbs, for users' tests, and for previews in
notebooks."""
