"""The path from replayed transitions to new weights can be read in one sitting."""

import sys
from collections import Counter
from pathlib import Path

import mviq
from mviq.agents import MVI

HOME = Path(mviq.__file__).parent
COMPREHENSIONS = {"<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>"}


def functions_called(work):
    """Return the code of mviq's functions that run meanwhile, without compiled kernels."""
    called = set()

    def note(frame, event, argument):
        code = frame.f_code
        own = HOME in Path(code.co_filename).parents and code.co_name not in COMPREHENSIONS
        if event == "call" and own and "kernels" not in code.co_filename:
            called.add(code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


def test_a_rollout_and_an_update_are_400_lines_in_8_files():
    agent = MVI("MlpPolicy", "CartPole-v1", q=2.0, seed=0, device="cpu", learning_starts=50)
    agent.learn(200)

    def once():
        _, callback = agent._setup_learn(4, reset_num_timesteps=False)
        agent.collect_rollouts(agent.env, callback, agent.train_freq, agent.replay_buffer)
        agent.train(1, agent.batch_size)

    lines = Counter()
    for code in functions_called(once):
        last = max(line for _, _, line in code.co_lines() if line)
        lines[code.co_filename] += last - code.co_firstlineno + 1
    assert sum(lines.values()) <= 400, lines
    assert len(lines) <= 8, lines
