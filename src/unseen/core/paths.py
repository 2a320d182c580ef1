"""Folders of the current user."""

from pathlib import Path

from platformdirs import user_cache_path

from unseen.core.errors import ConfigError


def cache_folder() -> Path:
    """Return the default cache folder; `XDG_CACHE_HOME` moves it, as for other programs.

    Raises:  `ConfigError` for a user without a home folder
    """
    try:
        return user_cache_path("unseen", appauthor=False)
    except RuntimeError as problem:
        raise ConfigError(f"there is no folder for caches: {problem}", hint="Set XDG_CACHE_HOME.") from None
