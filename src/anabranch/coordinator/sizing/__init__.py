"""Which factor a job needs, judging by the load of its lanes: the autosizer and its figures. Pure."""
