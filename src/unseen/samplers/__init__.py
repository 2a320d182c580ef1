"""How a batch is drawn."""

from unseen.samplers.ddm import DistanceMatching as DistanceMatching
from unseen.samplers.drawing import Batches as Batches
from unseen.samplers.drawing import FedBatches as FedBatches
from unseen.samplers.drawing import Place as Place
from unseen.samplers.frd import FrechetMatching as FrechetMatching
from unseen.samplers.gc import GreedyCoreset as GreedyCoreset
from unseen.samplers.samples_per_class import SamplesPerClass as SamplesPerClass
from unseen.samplers.spc_random import SamplesPerClassRandom as SamplesPerClassRandom
