"""rejax's DQN and IQN with Table 1's settings: environment and updates are one compiled loop."""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import rejax
from flax import linen
from jax import numpy as jnp
from rejax.algos import iqn
from rejax.networks import MLP, DiscreteQNetwork, EpsilonGreedyPolicy, ImplicitQuantileNetwork


class Rejax:
    """An SB3-like agent; one step of four parallel environments replaces ``train_freq=4``."""

    replay_buffer = None

    def __init__(self, algorithm):
        self.state, self._n_updates = algorithm.init_state(jax.random.PRNGKey(0)), 0
        self.iterate = jax.jit(
            lambda state, number: jax.lax.fori_loop(
                0, number, lambda _, now: algorithm.train_iteration(now), state
            )
        )

    def learn(self, steps, reset_num_timesteps=True):
        """Make one update per four environment steps."""
        self.state = jax.block_until_ready(self.iterate(self.state, steps // 4))
        self._n_updates += steps // 4


class OurNetwork(ImplicitQuantileNetwork):
    """rejax's IQN network with our layers and 64 cosines, and 8 samples to choose actions."""

    @linen.compact
    def __call__(self, obs, rng):
        """Return the quantile of each action at a random fraction, and the fraction."""
        features = MLP(self.hidden_layer_sizes, self.activation)(obs)
        fractions = jax.random.uniform(rng, (len(obs),))
        cosines = jnp.cos(jnp.pi * jnp.outer(fractions, jnp.arange(64)))
        x = features * linen.relu(linen.Dense(features.shape[-1])(cosines))
        return linen.Dense(self.action_dim)(linen.relu(linen.Dense(64)(x))), fractions

    def best_action(self, obs, rng, num_samples=8):
        """Return greedy actions."""
        return super().best_action(obs, rng, num_samples)


def dqn(hidden, **options):
    """Return rejax's DQN."""
    layers = {"hidden_layer_sizes": tuple(hidden), "activation": linen.relu}
    agent = EpsilonGreedyPolicy(DiscreteQNetwork)(action_dim=2, **layers)
    return Rejax(_create(rejax.DQN, ddqn=False, **options).replace(agent=agent))


def implicit(hidden, fractions, **options):
    """Return rejax's IQN with our network."""
    layers = {"hidden_layer_sizes": tuple(hidden), "activation": linen.relu}
    agent = iqn.EpsilonGreedyPolicy(OurNetwork)(action_dim=2, **layers)
    samples = {"num_tau_samples": fractions, "num_tau_prime_samples": fractions}
    return Rejax(_create(rejax.IQN, **samples, **options).replace(agent=agent))


def _create(algorithm, target_update_interval, **options):
    return algorithm.create(
        env="CartPole-v1",
        num_envs=4,
        target_update_freq=target_update_interval,
        fill_buffer=0,
        **options,
    )
