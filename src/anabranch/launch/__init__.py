"""The path from a job file to what a coordinator starts: for the verbs, for users' tests, and for previews in
notebooks."""
