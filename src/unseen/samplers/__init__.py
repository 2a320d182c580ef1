"""How a batch is drawn."""

from unseen.samplers.samples_per_class import DealtBatches as DealtBatches
from unseen.samplers.samples_per_class import Place as Place
from unseen.samplers.samples_per_class import SamplesPerClass as SamplesPerClass
