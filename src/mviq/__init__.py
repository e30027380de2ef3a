"""MVI(q): Munchausen value iteration regularised by the Tsallis Kullback-Leibler divergence."""
