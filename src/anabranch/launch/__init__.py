"""Turns a job file into a job that a coordinator can start. Verbs, users' tests, and previews in notebooks use this
package."""
