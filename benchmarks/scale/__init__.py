"""Speed and scale: a comparison with other label models, growth curves, and their pages."""
