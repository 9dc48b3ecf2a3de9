"""Files between the stages: written whole or not at all, and verified when they are read."""
