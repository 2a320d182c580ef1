"""Folders of the current user."""

from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """The default cache folder; `XDG_CACHE_HOME` moves it, as for other programs."""
    return user_cache_path("unseen", appauthor=False)
