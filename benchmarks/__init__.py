"""Speed, as ratios to named baselines measured in the same run."""
