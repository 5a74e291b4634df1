"""Plan to event program, verified, executed and traced; the transformers plug-in."""
