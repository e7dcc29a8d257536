"""Plans the step from one generation to the next, in which some lanes close and new lanes continue from them. Also
plans the deployment after a drain, and what a reset keeps.
"""
