"""Loops compiled by numba, or run as plain Python where numba is not installed.

Import these modules where they are used, not at the top of a module: loading the compiler takes a second.
"""
