"""Where readings come from: one small face, one file a source."""
