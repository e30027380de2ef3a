"""Hyper-parameter search with Optuna: each trial is a few runs of a study."""
