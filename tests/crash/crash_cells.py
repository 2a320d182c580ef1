"""Cells that worker processes of the crash tests run."""

import time


def short_cell(job, progress):
    """Work for a while in steps."""
    for step in range(5):
        progress(step, 5, "working")
        time.sleep(job.config["seconds"] / 5)
    return {"number": job.config["number"], "square": job.config["number"] ** 2}
