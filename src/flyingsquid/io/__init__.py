"""Plain states to files and back. Nothing here knows what a model is, and nothing is pickled."""

from flyingsquid.io.files import read_state, write_state
from flyingsquid.io.labels import decode_labels, encode_labels
from flyingsquid.io.state import Json, State

__all__ = ["Json", "State", "decode_labels", "encode_labels", "read_state", "write_state"]
