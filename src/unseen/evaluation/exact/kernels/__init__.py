"""Compiled loops of the exact engine. Import these modules where they are used: loading the compiler takes a second."""

from unseen.core.machine.compiled import IS_COMPILED as IS_COMPILED
from unseen.core.machine.compiled import compiled as compiled
from unseen.core.machine.compiled import compiled_in_any_order as compiled_in_any_order
