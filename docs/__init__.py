"""Scripts that write the generated pages and figures of the documentation: `python -m docs.generate`."""
