"""rejax's DQN on Table 1: a peer whose environments and updates are one compiled loop."""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
from flax import linen
from rejax import DQN
from rejax.networks import DiscreteQNetwork, EpsilonGreedyPolicy


class Rejax:
    """Looks like an agent; four environments at once are the four steps before an update."""

    replay_buffer = None

    def __init__(self, batch_size, buffer_size, learning_rate, target_update_interval, hidden):
        algorithm = DQN.create(
            env="CartPole-v1",
            num_envs=4,
            batch_size=batch_size,
            buffer_size=buffer_size,
            learning_rate=learning_rate,
            target_update_freq=target_update_interval,
            fill_buffer=0,
            ddqn=False,
        )
        layers = {"hidden_layer_sizes": tuple(hidden), "activation": linen.relu}
        agent = EpsilonGreedyPolicy(DiscreteQNetwork)(action_dim=2, **layers)
        algorithm = algorithm.replace(agent=agent)
        self.state, self._n_updates = algorithm.init_state(jax.random.PRNGKey(0)), 0
        self.iterate = jax.jit(
            lambda state, number: jax.lax.fori_loop(
                0, number, lambda _, now: algorithm.train_iteration(now), state
            )
        )

    def learn(self, steps, reset_num_timesteps=True):
        """Make an update for every four steps."""
        self.state = jax.block_until_ready(self.iterate(self.state, steps // 4))
        self._n_updates += steps // 4
