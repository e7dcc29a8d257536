"""Makes the documents of :mod:`anabranch.views`, which the dashboard and the CLI show, from running jobs and the
store.
"""
