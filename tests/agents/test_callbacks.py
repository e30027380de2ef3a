"""The callbacks and loggers of Stable-Baselines3 on our agents."""

import csv
import math

import pytest
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize

from mviq.agents import MVI, QRMVI
from problems import made

AGENTS = pytest.mark.parametrize("cls", [MVI, QRMVI])


@AGENTS
def test_callbacks_are_called_and_can_stop(cls, tmp_path):
    class Count(BaseCallback):
        steps = 0

        def _on_step(self):
            self.steps += 1
            assert {"infos", "dones", "rewards", "new_obs", "actions"} <= self.locals.keys()
            return True

    count = Count()
    made(cls).learn(123, callback=count)
    assert count.steps == 124  # a rollout has four steps
    stopped = made(cls).learn(10_000, callback=StopTrainingOnMaxEpisodes(3))
    assert stopped.status == "stopped"
    assert stopped.num_timesteps < 1000
    evaluate = EvalCallback(
        make_vec_env("CartPole-v1"), eval_freq=60, log_path=str(tmp_path), verbose=0
    )
    made(cls).learn(150, callback=[evaluate, Count()])
    assert (tmp_path / "evaluations.npz").exists()


@AGENTS
def test_checkpoints_and_the_best_model_are_safe_files(cls, tmp_path):
    """What SB3's callbacks write can be loaded: the agent, its replay buffer, the statistics."""
    env, evaluation = (VecNormalize(make_vec_env("CartPole-v1", seed=i)) for i in (0, 1))
    checkpoints = CheckpointCallback(
        60, str(tmp_path), save_replay_buffer=True, save_vecnormalize=True
    )
    evaluate = EvalCallback(
        evaluation, eval_freq=100, best_model_save_path=str(tmp_path / "best"), verbose=0
    )
    agent = made(cls, env, learning_starts=20).learn(124, callback=[checkpoints, evaluate])
    again = cls.load(tmp_path / "rl_model_120_steps", env=env, device="cpu")
    again.load_replay_buffer(tmp_path / "rl_model_replay_buffer_120_steps.pkl")
    assert (again.num_timesteps, again.replay_buffer.size()) == (120, 119)  # stored after callbacks
    VecNormalize.load(
        str(tmp_path / "rl_model_vecnormalize_120_steps.pkl"), make_vec_env("CartPole-v1")
    )
    again.learn(40, reset_num_timesteps=False)
    assert again.num_timesteps == 160
    best = cls.load(tmp_path / "best" / "best_model.zip", device="cpu")
    assert best.num_timesteps == 100
    assert agent.num_timesteps == 124


@pytest.mark.parametrize(
    "stop",
    [
        {"callback_on_new_best": StopTrainingOnRewardThreshold(-1.0)},
        {"callback_after_eval": StopTrainingOnNoModelImprovement(0, min_evals=1)},
    ],
    ids=lambda stop: next(iter(stop)),
)
def test_evaluations_can_stop(stop):
    evaluate = EvalCallback(make_vec_env("CartPole-v1"), eval_freq=20, verbose=0, **stop)
    assert made(MVI).learn(1000, callback=evaluate).status == "stopped"


@AGENTS
def test_logs_to_tensorboard_and_csv(cls, tmp_path):
    agent = made(cls, tensorboard_log=str(tmp_path / "board"), learning_starts=20)
    agent.learn(200)
    assert list(tmp_path.glob(f"board/{cls.__name__}_1/events*"))
    agent = made(cls, learning_starts=20, target_update_interval=50)
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(600, log_interval=1)
    agent.logger.close()
    with (tmp_path / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in (
        "rollout/ep_rew_mean",
        "train/loss",
        "train/q_values",
        "tsallis/entropy",
        "tsallis/support_size",
        "tsallis/munchausen",
        "tsallis/gap_minus_log",
        "tsallis/residual",
        "time/fps",
    ):
        numbers = [float(row[name]) for row in rows if row[name]]
        assert numbers, name
        assert all(math.isfinite(number) for number in numbers), name


def test_progress_bar(capsys):
    made(MVI).learn(150, progress_bar=True)
    shown = "".join(capsys.readouterr())
    assert "152/150" in shown  # whole rollouts of four steps
