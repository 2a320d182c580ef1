"""Compiled loops for small batches on the CPU, where calling an operator takes longer than its numbers.

Each does the work of a dozen operators in one pass. Import these modules where they are used: loading the compiler
takes a second.
"""
