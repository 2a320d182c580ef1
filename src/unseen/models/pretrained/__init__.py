"""Pretrained weights: from files, from packages and from the hub, and what is known about them."""
