"""The autosizer: which factor a job needs, judging by the load of its lanes. These are pure functions."""
