"""Modules whose examples are not collected, because they use an extra that is not installed."""

from importlib.util import find_spec

# Doctests are looked for in every module, and looking imports it.
_NEED_TORCH = ["src/flyingsquid/torch.py", "src/flyingsquid/legacy/loss.py", "tests/support/torch_process.py"]
collect_ignore = [] if find_spec("torch") else _NEED_TORCH
collect_ignore += [] if find_spec("numba") else ["src/flyingsquid/kernels/compiled.py"]
collect_ignore += [] if find_spec("matplotlib") else ["src/flyingsquid/plot.py"]
collect_ignore += [] if find_spec("dask") else ["src/flyingsquid/distributed"]
collect_ignore += [] if find_spec("starlette") else ["src/flyingsquid/studio/server.py"]
