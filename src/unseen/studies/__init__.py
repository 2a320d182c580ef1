"""Runs and grids of runs: plan, cells, store."""

from unseen.studies.plan import Cell as Cell
from unseen.studies.plan import Plan as Plan
from unseen.studies.planning import load_plan as load_plan
from unseen.studies.planning import plan_cells as plan_cells
from unseen.studies.planning import shipped_plans as shipped_plans
from unseen.studies.recipe import Prepared as Prepared
from unseen.studies.recipe import Recipe as Recipe
from unseen.studies.recipe import prepare as prepare
from unseen.studies.runner import StudyOutcome as StudyOutcome
from unseen.studies.runner import run_study as run_study
from unseen.studies.running import fill_caches as fill_caches
from unseen.studies.running import items_of as items_of
from unseen.studies.running import load_run as load_run
from unseen.studies.running import run as run
from unseen.studies.running import run_cell as run_cell
from unseen.studies.running import test_side as test_side
from unseen.studies.store import Store as Store
