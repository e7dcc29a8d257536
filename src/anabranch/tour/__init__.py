"""The tour: real flights, a real job, and figures that are checked against the data itself."""
