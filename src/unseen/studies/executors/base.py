"""What the runner of a study needs of an executor: workers that it starts, sends cells to and hears from."""

from dataclasses import dataclass
from typing import Protocol

from unseen.core.config import Record
from unseen.core.worker import CellJob


@dataclass(frozen=True)
class Message:
    """Something a worker sent, or that became of it."""

    worker: str


@dataclass(frozen=True)
class Ready(Message):
    """The worker has started and takes cells."""


@dataclass(frozen=True)
class Progressed(Message):
    """How far its cell is: `done` of `total`, in words `message`; the values are as the cell reported them."""

    done: float
    total: float
    message: str


@dataclass(frozen=True)
class Printed(Message):
    """A line that its cell or a library printed."""

    line: str


@dataclass(frozen=True)
class Finished(Message):
    """A cell has its result."""

    cell: str
    result: Record


@dataclass(frozen=True)
class Failed(Message):
    """A cell raised an error. A final one is not worth another attempt; after any other the worker ends by itself."""

    cell: str
    error: str
    is_final: bool


@dataclass(frozen=True)
class Ended(Message):
    """The worker is gone, with whatever it was running; no message of it follows."""

    reason: str


class Executor(Protocol):
    """Runs cells in workers, one cell per worker at a time.

    A worker is known by its identity (`core.processes.identity`), under which it also claims cells in the store.
    """

    @property
    def workers(self) -> int:
        """How many workers may run at the same time."""

    def start(self, of: int) -> str:
        """Start a worker that shares the machine with `of` - 1 others; returns its identity. It then gets `Ready`."""

    def send(self, worker: str, job: CellJob) -> None:
        """Send a cell to a worker that is ready and idle."""

    def receive(self, timeout: float) -> list[Message]:
        """The messages since the last call, those of a worker in order; waits for one at most `timeout` seconds."""

    def stop(self, *, gracefully: bool) -> None:
        """End all workers and whatever they started; gracefully only if all are idle."""
