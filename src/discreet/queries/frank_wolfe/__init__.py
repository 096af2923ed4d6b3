"""Scores of the vertices of a set, for private Frank–Wolfe: all at once, or one at a time on sparse rows."""
