"""How fast, how far: one run beside other label models, growth curves, and the pages made of them."""
