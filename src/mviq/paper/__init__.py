"""Reproduction of the paper: numerical checks of its statements, and its figures and tables."""
