"""The documents from which the dashboard and the command line learn about jobs and their coordinator. Each document
covers one aspect, and is small enough to be requested repeatedly.
"""
