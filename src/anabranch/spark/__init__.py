"""All code that uses Spark: sessions, the queries of lanes, and operators as calls on DataFrames."""
