"""Named points at which a test can make a process die; they do nothing unless `UNSEEN_FAULT` names them."""

import os
import signal


def fault(point: str) -> None:
    """Die here by SIGKILL if the environment says so: `UNSEEN_FAULT=checkpoint.before_rename`."""
    if os.environ.get("UNSEEN_FAULT") == point:
        os.kill(os.getpid(), signal.SIGKILL)
