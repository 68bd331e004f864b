"""What is not collected: modules that import an extra that is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/flyingsquid/torch"]
