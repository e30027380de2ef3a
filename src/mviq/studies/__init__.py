"""Studies: many runs from one file, on one machine or a Ray cluster, resumable at any time."""
