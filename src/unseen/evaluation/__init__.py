"""Evaluation: exact ranks, retrieval and clustering scores, nearest neighbours."""

from unseen.evaluation.clustering import F1 as F1
from unseen.evaluation.clustering import NMI as NMI
from unseen.evaluation.evaluation import evaluate as evaluate
from unseen.evaluation.kmeans import KMeans as KMeans
from unseen.evaluation.neighbours import Neighbours as Neighbours
from unseen.evaluation.neighbours import nearest_neighbours as nearest_neighbours
from unseen.evaluation.ranks import Ranks as Ranks
from unseen.evaluation.retrieval import AveragePrecision as AveragePrecision
from unseen.evaluation.retrieval import MAPAt1000 as MAPAt1000
from unseen.evaluation.retrieval import MAPAtC as MAPAtC
from unseen.evaluation.retrieval import MAPAtCPrinted as MAPAtCPrinted
from unseen.evaluation.retrieval import MAPAtR as MAPAtR
from unseen.evaluation.retrieval import Precision as Precision
from unseen.evaluation.retrieval import Recall as Recall
from unseen.evaluation.retrieval import RPrecision as RPrecision
from unseen.evaluation.scores import Scores as Scores
