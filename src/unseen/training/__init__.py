"""Training: the loop, its checkpoints and guards, optimizers and learning-rate schedules."""

from unseen.training.averaging import WeightAverage as WeightAverage
from unseen.training.blending import Blend as Blend
from unseen.training.checkpoints import Checkpoint as Checkpoint
from unseen.training.checkpoints import has_checkpoint as has_checkpoint
from unseen.training.checkpoints import load_checkpoint as load_checkpoint
from unseen.training.checkpoints import save_checkpoint as save_checkpoint
from unseen.training.job import Job as Job
from unseen.training.job import State as State
from unseen.training.loop import train as train
from unseen.training.optimizers import SGD as SGD
from unseen.training.optimizers import Adam as Adam
from unseen.training.optimizers import AdamW as AdamW
from unseen.training.optimizers import OptimizerSettings as OptimizerSettings
from unseen.training.optimizers import parameter_groups as parameter_groups
from unseen.training.schedules import Constant as Constant
from unseen.training.schedules import Cosine as Cosine
from unseen.training.schedules import Schedule as Schedule
from unseen.training.schedules import Step as Step
