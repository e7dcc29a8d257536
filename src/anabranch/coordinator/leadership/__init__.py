"""Decides which of several coordinators on one store leads, and does the work of the leading coordinator."""
