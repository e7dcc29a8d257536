"""Contains everything that uses Spark: sessions, a lane's query, and operators as calls on DataFrames."""
