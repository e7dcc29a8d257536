"""Work on a job that no process serves: replacing the folders of its lanes, or resetting it."""
