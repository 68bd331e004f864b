"""The paper's tables and figures, measured by the package on this machine."""
