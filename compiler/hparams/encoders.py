"""The keys of models that make embeddings."""

from ggufc.compiler.hparams.keys import Keys

# By number, as files give them; 4 is for models that score pairs of texts.
POOLINGS = ("none", "mean", "cls", "last")


def read_causal(keys: Keys) -> bool:
    """Whether tokens see only those before them. Encoders have no other graph than that where they
    see all; of decoders, those whose data says so may have been trained to."""
    name = "attention.causal"
    if not keys.is_among("encoders"):
        return keys.flag(name, True)
    if keys.flag(name, False):
        raise keys.fail(name, True, "is only False: the architecture is an encoder's")
    return False


def read_pooling(keys: Keys) -> str | None:
    """How the embeddings of tokens become one of their text, if the file says so."""
    name = "pooling_type"
    if not keys.has(name):
        return None
    number = keys.metadata.get_int(keys.full(name))
    if not 0 <= number < len(POOLINGS):
        known = ", ".join(f"{i} ({kind})" for i, kind in enumerate(POOLINGS))
        raise keys.fail(name, number, f"are {known}")
    return POOLINGS[number]
