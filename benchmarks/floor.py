"""Lower bounds for the time of an update: its matrix products alone, and its environment steps."""

import math
import time

import numpy as np
import torch

from mviq.processor import blas_threads_of_torch


def fastest(work, repeats=10):
    """Return the shortest time of several calls, in seconds."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def gemm_rate(n=1024):
    """Return GFLOP/s of a large matrix product."""
    a, out = torch.randn(n, n), torch.empty(n, n)
    return 2 * n**3 / fastest(lambda: torch.mm(a, a, out=out)) / 1e9


def products(network, observation, batch, copies):
    """Return the (m, k, n) of all matrix products of an update with its four steps.

    ``copies`` is the number of batches of states that the target network evaluates.
    """
    acting = learning = forward_products(network, observation)
    if hasattr(network, "sampling"):  # an implicit critic uses other fractions in an update
        network.sampling = True
        learning = forward_products(network, observation)
        network.sampling = False
    found = [product for product, _ in 4 * acting]
    for (places, k, n), inside in learning:
        rows = batch * places
        found += [(copies * rows, k, n), (rows, k, n), (k, rows, n)]
        found += [(rows, n, k)] if inside else []
    return found


def forward_products(network, observation):
    """Return the (m, k, n) of the products for one state, and whether each input has a gradient."""
    found = []

    def note(module, inputs, output):
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d):
            n, k = len(module.weight), math.prod(module.weight.shape[1:])
            found.append(((output.numel() // n, k, n), inputs[0].requires_grad))

    hooks = [m.register_forward_hook(note) for m in network.modules()]
    network(observation)
    for hook in hooks:
        hook.remove()
    return found


class Products:
    """The matrix products of an update with its four steps, each in the faster of two BLAS."""

    def __init__(self, agent, copies=2):
        policy = agent.policy
        network = policy.q_net if hasattr(policy, "q_net") else policy.quantile_net
        shapes = products(network, torch.as_tensor(agent.env.reset()), agent.batch_size, copies)
        self.flops = sum(2 * m * k * n for m, k, n in shapes)
        with blas_threads_of_torch():
            self.works = [faster(m, k, n) for m, k, n in shapes]

    @blas_threads_of_torch()
    def milliseconds(self, updates):
        """Return the CPU time of the products of one update."""
        begun = time.process_time()
        for _ in range(updates):
            for work in self.works:
                work()
        return 1e3 * (time.process_time() - begun) / updates


def faster(m, k, n):
    """Return a product of matrices by PyTorch's BLAS or by NumPy's, whichever is faster."""
    a, b, out = (np.ones(shape, np.float32) for shape in ((m, k), (k, n), (m, n)))
    x, y, z = map(torch.from_numpy, (a, b, out))
    return min(lambda: torch.mm(x, y, out=z), lambda: np.dot(a, b, out=out), key=fastest)


def environment_alone(agent, steps=400):
    """Return the CPU milliseconds of four environment steps, without the ``VecEnv`` around it.

    ale-py's vectorised environment is a ``VecEnv`` itself, whose time is included.
    """
    env = agent.get_env()
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps)
    begun = time.process_time()
    if not hasattr(env, "envs"):
        for action in actions:
            env.step(np.array([action]))
    else:
        single = env.envs[0]
        for action in actions:
            if any(single.step(action)[2:4]):
                single.reset()
    return 4e3 * (time.process_time() - begun) / steps


def replay_bytes(buffer):
    """Return the memory of the arrays of a replay buffer in bytes."""
    arrays = {}
    for holder in (buffer, getattr(buffer, "observations", None)):
        for value in vars(holder).values() if hasattr(holder, "__dict__") else ():
            if isinstance(value, np.ndarray):
                base = value if value.base is None else value.base
                arrays[id(base)] = base.nbytes
    return sum(arrays.values())
