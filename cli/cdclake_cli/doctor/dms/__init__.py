"""The settings of DMS and of source databases that suit cdclake, each with its reason."""
