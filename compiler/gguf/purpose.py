"""What a GGUF file is for: some hold no model of language, but what goes with one."""

from ggufc.compiler.errors import ModelError, quoted
from ggufc.compiler.gguf.metadata import Metadata

TYPE, ARCHITECTURE = "general.type", "general.architecture"
# By the value of either key.
COMPANIONS = {
    TYPE: {
        "adapter": "an adapter to a model's weights (LoRA)",
        "imatrix": "statistics for quantising a model",
        "mmproj": "a projector of images or sound",
    },
    ARCHITECTURE: {
        "clip": "a projector of images or sound",
        "controlvector": "directions to steer a model with",
        "imatrix": "statistics for quantising a model",
    },
}


def check_purpose(metadata: Metadata) -> None:
    """Raise a ModelError for a file that holds no model, but what goes with one."""
    for key, kinds in COMPANIONS.items():
        value = metadata.get(key)
        if isinstance(value, str) and value in kinds:
            raise ModelError(
                f"{metadata.label}: {key} is {quoted(value)}: the file holds {kinds[value]};"
                " supported are models of language alone"
            )
