"""Figures as data, how they look, and how they become files. All packages draw with these."""
