"""The command line: parses options, calls the package, prints results. Everything it does can be done from Python."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; user errors print one sentence and exit with 2, Ctrl-C exits with 130."""
    from unseen.cli.app import app
    from unseen.core.errors import UnseenError

    # `kill` ends a run as Ctrl-C does, with the same cleanup of files and workers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except UnseenError as error:
        _print_error(error.message)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output (head, less) has closed the pipe; stop Python from flushing into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _print_error(f"{error.strerror or error}: {error.filename or 'no file named'}")
        sys.exit(2)


def _print_error(sentence: str) -> None:
    sys.stderr.write(f"unseen: {sentence}\n")
