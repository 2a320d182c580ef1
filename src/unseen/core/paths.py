"""Where files of this user lie."""

from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """The folder of caches where a command or a call names none; `XDG_CACHE_HOME` moves it, as for other programs."""
    return user_cache_path("unseen", appauthor=False)
