"""Methods: training objectives beyond one loss on one linear head."""

from unseen.methods.classifier import Classifier as Classifier
from unseen.methods.diva import DiVA as DiVA
from unseen.methods.mixup import ManifoldMixup as ManifoldMixup
from unseen.methods.objective import ForwardOutput as ForwardOutput
from unseen.methods.objective import Method as Method
from unseen.methods.objective import MethodInputs as MethodInputs
from unseen.methods.objective import Objective as Objective
from unseen.methods.plain import Plain as Plain
from unseen.methods.s2sd import S2SD as S2SD
from unseen.methods.uniform_prior import UniformPrior as UniformPrior
