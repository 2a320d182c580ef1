"""What the runner of a study needs of an executor: workers that it starts, sends cells to and hears from.

A worker is known by its identity (`core.processes.identity`), under which it also claims cells in the store.
"""

from typing import NamedTuple, Protocol

from unseen.core.config import Record
from unseen.core.worker import CellJob


class Ready(NamedTuple):
    """The worker has started and takes cells."""

    worker: str


class Progressed(NamedTuple):
    """How far its cell is: `done` of `total`, in words `message`; as the cell reported it, so it may be nonsense."""

    worker: str
    done: float
    total: float
    message: str


class Printed(NamedTuple):
    """A line that its cell or a library printed."""

    worker: str
    line: str


class Finished(NamedTuple):
    """A cell has its result."""

    worker: str
    cell: str
    result: Record


class Failed(NamedTuple):
    """A cell raised an error. A final one is not worth another attempt; after any other the worker ends by itself."""

    worker: str
    cell: str
    error: str
    is_final: bool


class Ended(NamedTuple):
    """The worker is gone, with the cell it was running; none of its messages follows."""

    worker: str
    reason: str


Message = Ready | Progressed | Printed | Finished | Failed | Ended


class Executor(Protocol):
    """Runs cells in workers, one cell per worker at a time."""

    @property
    def workers(self) -> int:
        """How many workers may run at the same time."""

    def start(self, of: int) -> str:
        """Start a worker, one of `of` that share the machine; returns its identity. `Ready` follows."""

    def send(self, worker: str, job: CellJob) -> None:
        """Send a cell to a worker that is ready and idle."""

    def receive(self, timeout: float) -> list[Message]:
        """The messages since the last call, those of a worker in order; waits for one at most `timeout` seconds."""

    def stop(self, *, gracefully: bool) -> None:
        """End all workers and whatever they started; gracefully only if all are idle."""
