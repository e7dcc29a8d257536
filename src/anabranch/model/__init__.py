"""The plain data on which all decisions are based: SSPs, tasks, containers, job models, lanes, graphs; and
their JSON.
"""
