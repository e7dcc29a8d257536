"""Looks things up in the streams of jobs: partition counts, offsets, dead letters and early output. No job may be
locked meanwhile.
"""
