"""Studies that nobody ran: a store with scores and cells with spectra, made up, for tests of what reads them."""

import numpy as np

from unseen.core.config import hash_of
from unseen.core.files import sha256_of, write_bytes, write_json
from unseen.core.processes import identity
from unseen.studies.plan import Cell
from unseen.studies.runner import STORE
from unseen.studies.store import Store, create_store


def distance_loss(name="margin", p_switch=None, **settings):
    """The record of a loss with distance-weighted mining, complete as a recipe holds it."""
    miner = {"name": "distance", "lower_cutoff": 0.5, "upper_cutoff": 1.4, "per_anchor": 1}
    if p_switch is not None:
        miner |= {"name": "rho_distance", "p_switch": p_switch}
    return {"name": name, "miner": miner, **settings}


def decaying(rate, width=16):
    """A spectrum that falls by a factor from value to value."""
    values = rate ** np.arange(width)
    return values / values.sum()


def write_study(folder, methods, *, splits=("characters",), seeds=(0, 1), epochs=3, title="made up"):
    """A finished study; `methods` holds label -> (loss record, method name, recall@1, rate of the spectrum)."""
    cells, contents = [], {}
    for split in splits:
        for seed in seeds:
            for label, (loss, method, recall, rate) in methods.items():
                config = {"data": {"name": "glyphs"}, "split": {"name": split}, "loss": loss, "seed": seed}
                config |= {"method": {"name": method}, "epochs": epochs}
                cell = Cell(hash_of(config), "glyphs", split, label, seed, config)
                cells.append(cell)
                numbers = {"recall@1": recall + 0.01 * seed, "nmi": 0.5}
                contents[cell.name] = {"scores": {"numbers": numbers}, "protocol": {"epochs": epochs}}
                own = folder / "cells" / cell.name
                write_bytes(own / "model.safetensors", cell.name.encode())
                spectra = {"values": decaying(rate).tolist(), "by_class": decaying(rate / 2, 35).tolist()}
                made_of = {"format": 1, "weights": sha256_of(own / "model.safetensors")}
                write_json(own / "spectra.json", {"made_of": made_of, **spectra})
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan(cells, {"title": title})
        owner = identity()
        while (claimed := store.claim(owner)) is not None:
            store.finish(claimed.name, owner, contents[claimed.name])
    return folder
