"""Small programs that use the package: `python -m examples.any_module`."""
