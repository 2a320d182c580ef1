"""Compiled loops of networks.

Import these modules where they are used, not at the top of a module: loading the compiler takes a second.
"""
