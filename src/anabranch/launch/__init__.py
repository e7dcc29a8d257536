"""From a job file to what a coordinator starts: for the verbs, for tests of users, and for previews in notebooks."""
