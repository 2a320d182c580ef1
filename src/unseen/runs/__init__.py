"""Runs: from a recipe to a folder with weights, scores and what a report shows."""

from unseen.runs.named_recipes import NamedRecipe as NamedRecipe
from unseen.runs.named_recipes import load_recipe as load_recipe
from unseen.runs.named_recipes import named_recipes as named_recipes
from unseen.runs.protocols import Protocol as Protocol
from unseen.runs.protocols import known_protocols as known_protocols
from unseen.runs.protocols import load_protocol as load_protocol
from unseen.runs.recipe import Prepared as Prepared
from unseen.runs.recipe import Recipe as Recipe
from unseen.runs.recipe import prepare as prepare
from unseen.runs.run_folder import RunFolder as RunFolder
from unseen.runs.run_recipe import LoadedRun as LoadedRun
from unseen.runs.run_recipe import engine_of_run as engine_of_run
from unseen.runs.run_recipe import evaluation_arguments as evaluation_arguments
from unseen.runs.run_recipe import load_run as load_run
from unseen.runs.run_recipe import make_dataset as make_dataset
from unseen.runs.run_recipe import run as run
