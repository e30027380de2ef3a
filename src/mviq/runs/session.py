"""One session of a run: trains the agent, and evaluates, logs and saves between rollouts.

A point between two rollouts is called a boundary. Evaluations and log rows are due after a number
of steps, checkpoints also after some time. Nothing done at a boundary changes what is learnt, so a
run is the same bit for bit, however many sessions it takes.
"""

import errno
import sys
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from mviq.agents import Agent, DivergenceError
from mviq.agents.replay import cut_off_last_episodes
from mviq.messages import one_line
from mviq.runs import run_state
from mviq.runs.building import make_env, model_files, save_agent
from mviq.runs.checkpoint import Checkpoint, Checkpoints, DamagedError
from mviq.runs.config import Config, remarks
from mviq.runs.directory import Result, RunDirectory
from mviq.runs.evaluation import evaluate, seed_of
from mviq.runs.own_parts import callback_state, own, prepare_callbacks
from mviq.runs.records import saved_step
from mviq.runs.repeating import CannotRepeat
from mviq.runs.reporter import Reporter
from mviq.runs.stopping import Stopped
from mviq.runs.trackers import NOTHING, About, TrackerWriter
from mviq.runs.tracking import Tables, TensorBoardWriter
from mviq.runs.video import check_filming, film
from mviq.storage import write_durably

CHECKPOINT_SECONDS = 60.0  # after which a checkpoint is due, whatever the steps
COSTLY = 10  # the least time between timed checkpoints, as a multiple of the time to write one
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Session(BaseCallback):
    """Callback that trains its agent, and evaluates, logs and saves between rollouts."""

    def __init__(
        self,
        directory: RunDirectory,
        config: Config,
        agent: Agent,
        reporter: Reporter,
        about: About = NOTHING,
    ) -> None:
        super().__init__()
        self.about = about
        self.directory, self.config, self.reporter = directory, config, reporter
        self.agent: Agent = agent
        self.checkpoints = Checkpoints(directory.checkpoints)
        self.callbacks: list[BaseCallback] = [make() for make in own(config, "callbacks")]
        own_table = directory.own_metrics if config.callbacks or config.q_schedule else None
        places = directory.progress, directory.timing, directory.evaluations
        self.tables = Tables(*places, own_table)
        self.boundary, self.best = 0, -np.inf
        self.saved = (0, 0)  # step and boundary of the newest checkpoint
        self.asked = threading.Event()
        self._cut_off = False  # whether an episode could not be repeated
        self._saved_at, self._saving_took = time.monotonic(), 0.0
        self._worked = 0.0  # seconds of earlier sessions

    # Beginning

    def prepare(self) -> None:
        """Load the newest checkpoint into the agent, if there is one."""
        assert self.agent.env is not None
        hidden = run_state.hidden_in(self.agent.env)
        self.state_readable = hidden is None
        if self.config.video:
            check_filming(self.agent, self.config)
        begun = self.directory.progress.is_file()
        checkpoint = self.checkpoints.newest(self._check, self.reporter.say)
        for name, table in self.tables.all.items():
            table.open(checkpoint.tables[name] if checkpoint else None)
        self.agent.set_logger(self.tables.logger(*self._tracker()))
        if checkpoint is not None:
            self._continue_from(checkpoint)
            return
        if begun:
            self.reporter.say("there is no checkpoint yet: beginning again at step 0")
        if run_state.repeats(self.agent.env):
            self.reporter.say("the environment hides its state: a resumed run repeats its episode")
        if hidden is not None:
            self.reporter.say(f"a resumed run will begin a new episode, since {hidden}")
        for remark in remarks(self.config):
            self.reporter.say(remark)

    def _tracker(self) -> list[KVWriter]:
        """Return the writer of the experiment tracker, if one is configured."""
        run, name = self.directory, self.config.track
        if name == "tensorboard":
            return [TensorBoardWriter(run)]
        return [] if name == "none" else [TrackerWriter(name, run, self.config, self.about)]

    def _check(self, checkpoint: Checkpoint) -> None:
        """Raise if the run cannot continue from a checkpoint; otherwise prepare to load it."""
        tree, step = checkpoint.tree, checkpoint.step
        if tree["config"] != self.config.hash:
            raise ValueError(f"it is of another configuration than {self.directory.config_file}")
        for name, table in self.tables.all.items():
            if name not in checkpoint.tables or not table.matches(checkpoint.tables[name]):
                raise DamagedError(f"{table.path} is not as the checkpoint left it")
        if type(tree["boundary"]) is not int or not 0 <= tree["boundary"] <= step:
            raise ValueError(f"boundary must be 0 to {step}, got {tree['boundary']!r:.40}")
        float(tree["best"]), int(1e9 * tree["time/time_elapsed"])
        agent, state = self.agent, (tree["agent"], checkpoint.arrays)
        assert agent.env is not None and agent.replay_buffer is not None  # noqa: PT018
        self.checkpoints.check_replay(checkpoint, agent.replay_buffer, step // agent.n_envs)
        another = partial(make_env, self.config, agent.n_envs, self.config.seed, False)
        try:
            run_state.rehearse(another, *state)
        except CannotRepeat as reason:
            self.reporter.say(f"the episode could not be repeated: {one_line(reason)}")
            tree["agent"]["env"], self._cut_off = None, True
        agent.env.reset()  # creates the attributes that the saved environment has
        self._prepared = (
            run_state.prepare_state(agent, step, *state, self.tables.can_log),
            prepare_callbacks(self.callbacks, tree["callbacks"], checkpoint.arrays),
        )

    def _continue_from(self, checkpoint: Checkpoint) -> None:
        assert self.agent.env is not None
        for put_in_place in self._prepared:
            put_in_place()
        for ring in run_state.replay_rings(self.agent):
            self.checkpoints.fill(ring)
        self.boundary = int(checkpoint.tree["boundary"])
        self.saved = (checkpoint.step, self.boundary)
        self.best = float(checkpoint.tree["best"])
        self._worked = float(checkpoint.tree["time/time_elapsed"])
        for name, content in checkpoint.files.items():  # in case they are missing or newer
            write_durably(self.directory.path / name, content)
        self.reporter.say(f"continuing at step {checkpoint.step}")
        if checkpoint.tree["agent"]["env"] is None:
            self.reporter.say("the environment cannot give its state: starting a new episode here")
            if self._cut_off:
                cut_off_last_episodes(self.agent.replay_buffer)
                self.checkpoints.write_all()
            run_state.begin_new_episodes(self.agent, self.config.seed)

    # Learning

    def learn(self) -> Result:
        """Train to the end of the run, and return its result."""
        total, done = self.config.total_steps, self.agent.num_timesteps
        self.reporter.start(done, total)
        self._on_training_start()  # even if no steps are left
        try:
            if done < total:
                self.agent.learn(
                    total - done,
                    callback=[self, *self.callbacks],
                    log_interval=sys.maxsize,  # rows are logged by steps, at boundaries
                    reset_num_timesteps=done == 0,
                )
            self._at_boundary(final=True)
        except DivergenceError as error:
            return self._ended(Result("diverged", self.agent.num_timesteps, str(error)))
        steps = self.agent.num_timesteps
        early = f"a callback stopped it at step {steps} of {total}" if steps < total else ""
        return self._ended(Result("finished", steps, early))

    def _ended(self, result: Result) -> Result:
        self.tables.check_in_place()
        if result.status == "finished":
            save_agent(self.agent, self.directory.model)
        self.tables.marks()  # syncs the tables before result.json says that the run has ended
        self.directory.finish(result)
        if not self.config.keep_checkpoint:
            self.checkpoints.remove()
        return result

    def _on_training_start(self) -> None:
        """Continue the clock of Stable-Baselines3 from the previous session."""
        self.agent.start_time = time.time_ns() - int(self._worked * 1e9)
        self.agent._num_timesteps_at_start = 0

    def _on_rollout_start(self) -> None:
        self._at_boundary()

    def _on_step(self) -> bool:
        return True

    def _at_boundary(self, final: bool = False) -> None:
        """Evaluate, log and save if due; at the end of the run, always evaluate and log."""
        step, best = self.agent.num_timesteps, self.best
        save = self._checkpoint_due() or (final and self.config.keep_checkpoint)
        with suppress(Stopped):  # during an evaluation, which the next session starts again
            self._measure(step, final)
        save = save or (self.best > best and not self.state_readable)
        stop = self.asked.is_set() and not (final and self.boundary == step)
        if (save or stop) and self.saved != (step, self.boundary) and self._is_stored():
            if stop:
                self.reporter.say(f"saving step {step}; Ctrl-C again to stop at once")
            self._save(step)
        if stop:
            raise Stopped(f"stopped at step {step}")
        self._show(step)

    def _is_stored(self) -> bool:
        """Return whether the last transition is in the replay buffer.

        It is not if a callback ended the run; an earlier checkpoint then leads to the same end.
        """
        buffer: Any = self.agent.replay_buffer
        rows = self.agent.num_timesteps // self.agent.n_envs
        return bool(buffer.pos == rows % buffer.buffer_size)

    def _checkpoint_due(self) -> bool:
        """Return whether a checkpoint is due, by steps or by the clock."""
        every = self.config.checkpoint_every
        longest = max(CHECKPOINT_SECONDS, COSTLY * self._saving_took)
        overdue = time.monotonic() - self._saved_at >= longest
        return overdue or (every is not None and self._due(every))

    def _due(self, every: int) -> bool:
        return self.agent.num_timesteps // every > self.boundary // every

    def _measure(self, step: int, final: bool) -> None:
        """Evaluate and log if that has become due since the previous boundary."""
        if step == self.boundary:
            return
        evaluating = self.config.eval_every and (final or self._due(self.config.eval_every))
        if evaluating:
            self._evaluate(step)
        if evaluating or final or self._due(self.config.log_every):
            self.agent.dump_logs()
        self.boundary = step

    def _stop_if_asked(self, finished: int) -> None:
        if self.asked.is_set():
            raise Stopped

    def _evaluate(self, step: int) -> None:
        seed, number = seed_of(self.config.seed, step), self.config.eval_episodes
        episodes = evaluate(self.agent, self.config, number, seed, tell=self._stop_if_asked)
        self.tables.check_in_place()
        for i, episode in enumerate(episodes):
            row = {"step": step, "episode": i, "return": episode.total, "length": episode.length}
            self.tables.evaluations.append(row)
        mean = float(np.mean([episode.total for episode in episodes]))
        self.agent.logger.record("eval/mean_reward", mean)
        length = float(np.mean([episode.length for episode in episodes]))
        self.agent.logger.record("eval/mean_ep_length", length)
        if mean > self.best:
            self.best = mean
            save_agent(self.agent, self.directory.best_model)
        self.reporter.say(f"step {step}: evaluation {mean:.1f} (best {self.best:.1f})")
        if self.config.video:
            film(self.agent, self.config, seed, self.directory.videos / f"step_{step}.mp4")

    def _save(self, step: int) -> None:
        began = time.monotonic()
        self.tables.check_in_place()
        tree, arrays = run_state.collect(self.agent)
        marks, best = self.tables.marks(), model_files(self.config, self.directory.best_model)
        files = {file.name: file.read_bytes() for file in best if self.best > -np.inf}
        callbacks, more = callback_state(self.callbacks)
        arrays |= more
        content = {
            "callbacks": callbacks,
            "agent": tree,
            "best": str(self.best),
            "boundary": self.boundary,
            "config": self.config.hash,
            "time/time_elapsed": (time.time_ns() - self.agent.start_time) / 1e9,
        }
        with ExitStack() as stack:
            if tree["env"] is None:
                stack.enter_context(run_state.last_episodes_cut_off(self.agent))
            rings = run_state.replay_rings(self.agent)
            self.checkpoints.write(Checkpoint(step, content, arrays, marks, files), rings)
        self.saved = (step, self.boundary)
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - began

    def _show(self, step: int) -> None:
        recent = self.agent.ep_info_buffer
        mean = sum(episode["r"] for episode in recent) / len(recent) if recent else None
        self.reporter.update(step, mean)

    # Ending

    def explain(self, error: OSError) -> str:
        """Return a message for a file error that says which checkpoint is safe."""
        place, step = self.directory.path, self.agent.num_timesteps
        cause = "the disk is full" if error.errno in _FULL else error.strerror or str(error)
        saved, kept = saved_step(self.directory), "there is no checkpoint"
        if saved:
            kept = f"the checkpoint of step {saved} is safe, 'mviq resume {place}' continues there"
        return f"cannot write {error.filename or place} at step {step}: {cause}; {kept}"

    def close(self) -> None:
        """Close the files, and stop the display."""
        self.reporter.stop()
        if self.agent._custom_logger:
            self.agent.logger.close()
        self.tables.close()
