"""The figure of pair weights draws what the sets say of themselves."""

import torch

from docs.draw_robust_weights import SETS, figure, pair_losses, pair_weights
from unseen.core.registry import uncertainty


def test_the_weights_of_autograd_are_those_of_the_set():
    terms = pair_losses()
    for title, each in SETS:
        stated = each.worst_case(terms.without_zeros(), key=0).weights
        # One sum in another order: a few units of the last place.
        torch.testing.assert_close(
            pair_weights(terms, each), (stated + stated.T).triu(1), rtol=1e-12, atol=1e-15, msg=title
        )


def test_every_registered_set_is_drawn_and_the_batch_has_hard_and_easy_pairs_of_both_kinds():
    assert {uncertainty.name_of(each) for _, each in SETS} == set(uncertainty.names())
    terms = pair_losses()
    for mask in (terms.is_positive, terms.is_negative):
        assert (terms.values[mask] > 0).any()
        assert (terms.values[mask] == 0).any()


def test_a_panel_for_each_set_shows_both_kinds_under_its_own_title():
    axes = figure().axes
    assert [panel.get_title(loc="left") for panel in axes] == [title for title, _ in SETS]
    assert all(len(panel.collections) == 2 for panel in axes)
    assert axes[0].get_ylabel()
    assert axes[-1].get_xlabel()
