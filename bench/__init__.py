"""Benchmarks against the alternatives, one module per subject: `python -m bench.losses`."""
