"""The command line: it parses, calls, and prints; whatever it can do, Python can do too."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2, Ctrl-C is exit code 130."""
    from unseen.cli.app import app
    from unseen.core.errors import UnseenError

    # `kill` ends a run as Ctrl-C does: the same clean way out, workers included.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except UnseenError as problem:
        _say(problem.message)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as problem:
        _say(f"{problem.strerror or problem}: {problem.filename or 'no file named'}")
        sys.exit(2)


def _say(sentence: str) -> None:
    sys.stderr.write(f"unseen: {sentence}\n")
