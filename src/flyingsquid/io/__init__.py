"""Plain states in files. Nothing here depends on what a model is, and nothing is pickled."""

from flyingsquid.io.files import read_state, replacing, write_state
from flyingsquid.io.state import Json, State, decode_labels, encode_labels

__all__ = ["Json", "State", "decode_labels", "encode_labels", "read_state", "replacing", "write_state"]
