"""Records of what was measured: the parts, how they run, and the pages that show them."""
