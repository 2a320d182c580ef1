"""Studies: grids of runs. A plan is loaded, prepared, expanded to cells and run; its store holds the results."""

from unseen.studies.cells import fill_caches as fill_caches
from unseen.studies.cells import plan_cells as plan_cells
from unseen.studies.cells import run_cell as run_cell
from unseen.studies.executors import Executor as Executor
from unseen.studies.executors import LocalExecutor as LocalExecutor
from unseen.studies.plan import Cell as Cell
from unseen.studies.plan import Plan as Plan
from unseen.studies.plan_files import load_plan as load_plan
from unseen.studies.plan_files import shipped_plans as shipped_plans
from unseen.studies.preparation import prepare_study as prepare_study
from unseen.studies.runner import RunnerSettings as RunnerSettings
from unseen.studies.runner import StudyOutcome as StudyOutcome
from unseen.studies.runner import run_study as run_study
from unseen.studies.store import Store as Store
