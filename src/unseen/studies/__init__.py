"""Studies: grids of runs. Plan, cells, store, runner, and the results of a finished study."""

from unseen.studies.cells import fill_caches as fill_caches
from unseen.studies.cells import run_cell as run_cell
from unseen.studies.plan import Cell as Cell
from unseen.studies.plan import Plan as Plan
from unseen.studies.plan_files import load_plan as load_plan
from unseen.studies.plan_files import plan_cells as plan_cells
from unseen.studies.plan_files import shipped_plans as shipped_plans
from unseen.studies.runner import StudyOutcome as StudyOutcome
from unseen.studies.runner import run_study as run_study
from unseen.studies.store import Store as Store
