"""Runs: from a recipe to a folder with weights, scores and what a report shows."""

from unseen.runs.recipe import Prepared as Prepared
from unseen.runs.recipe import Recipe as Recipe
from unseen.runs.recipe import prepare as prepare
from unseen.runs.run_recipe import evaluation_arguments as evaluation_arguments
from unseen.runs.run_recipe import load_run as load_run
from unseen.runs.run_recipe import make_dataset as make_dataset
from unseen.runs.run_recipe import run as run
