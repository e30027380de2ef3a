"""Rare large errors in the rewards that are learnt from; evaluations have none."""

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

SHARE, SIZE = 0.01, 10.0


class Outliers(BaseCallback):
    """Adds ±10 to one reward in a hundred, determined by the seed and the step of the run."""

    def _on_step(self):
        generator = np.random.default_rng([self.model.seed, self.num_timesteps])
        rewards = self.locals["rewards"]  # of this step, before they are stored
        hit = generator.random(rewards.shape) < SHARE
        rewards += SIZE * hit * generator.choice([-1, 1], rewards.shape)
        return True
