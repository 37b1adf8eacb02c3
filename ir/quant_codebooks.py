"""Decoders of the types whose codes index a grid of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DECODERS: dict[str, Callable[[Array], npt.NDArray[np.float32]]] = {}
