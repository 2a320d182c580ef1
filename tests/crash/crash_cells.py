"""Cells that worker processes of the crash tests run."""

import time


def short_cell(config, folder, progress):
    """Work for a while in steps."""
    for step in range(5):
        progress({"done": step, "total": 5, "words": "working"})
        time.sleep(config["seconds"] / 5)
    return {"number": config["number"], "square": config["number"] ** 2}
