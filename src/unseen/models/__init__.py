"""Backbones and the embedder around them."""

from unseen.models.convnet import ConvNet as ConvNet
from unseen.models.embedder import Embedder as Embedder
from unseen.models.embedder import build_embedder as build_embedder
from unseen.models.embedder import model_record as model_record
from unseen.models.embedding import embed as embed
from unseen.models.identity import Identity as Identity
from unseen.models.timm_backbone import Timm as Timm
from unseen.models.timm_backbone import normalisation_of as normalisation_of
