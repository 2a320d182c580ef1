"""Named points at which a crash test can kill the process; they do nothing unless `UNSEEN_FAULT` names them."""

import os
import signal


def fault(point: str) -> None:
    """Kill this process by SIGKILL if `UNSEEN_FAULT` names the point, e.g. `checkpoint.before_rename`."""
    if os.environ.get("UNSEEN_FAULT") == point:
        os.kill(os.getpid(), signal.SIGKILL)
