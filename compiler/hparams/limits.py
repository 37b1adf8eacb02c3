"""The largest hyperparameters that are taken to be meant."""

MAX_LAYERS = 1024
MAX_HEADS = 1 << 14
MAX_HEAD_DIM = 1 << 14
MAX_DIM = 1 << 20
MAX_HIDDEN_DIM = 1 << 24
MAX_VOCABULARY = 1 << 24
MAX_CONTEXT = 1 << 30
MAX_SCALE = 1e6
