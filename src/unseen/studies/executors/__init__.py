"""Executors: where the cells of a study run. The runner talks to all of them in the same way."""

from unseen.studies.executors.base import Executor as Executor
from unseen.studies.executors.local import LocalExecutor as LocalExecutor
