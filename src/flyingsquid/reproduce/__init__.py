"""The paper's tables, figures and theorems, measured anew: ``flyingsquid reproduce``.

One module a table or figure, each with an ``ARTIFACT``. Simulations need nothing; real votes come from a
folder that is named by the user.
"""

from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.registry import artifacts
from flyingsquid.reproduce.run import Done, choose, run

__all__ = ["Artifact", "Done", "Outcome", "Setting", "artifacts", "choose", "run"]
