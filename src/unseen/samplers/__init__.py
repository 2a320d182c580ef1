"""How a batch is drawn."""

from unseen.samplers.base import Batches as Batches
from unseen.samplers.base import BatchPosition as BatchPosition
from unseen.samplers.base import EmbeddingAwareBatches as EmbeddingAwareBatches
from unseen.samplers.ddm import DistanceMatching as DistanceMatching
from unseen.samplers.frd import FrechetMatching as FrechetMatching
from unseen.samplers.gc import GreedyCoreset as GreedyCoreset
from unseen.samplers.samples_per_class import SamplesPerClass as SamplesPerClass
from unseen.samplers.spc_random import SamplesPerClassRandom as SamplesPerClassRandom
