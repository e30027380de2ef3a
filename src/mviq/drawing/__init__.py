"""Figures as data, their style, and their rendering; used by all packages that draw."""
