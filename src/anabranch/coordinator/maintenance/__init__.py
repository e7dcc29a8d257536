"""Works on a job that no process serves, for example by resetting it, or by replacing the folders of its lanes."""
