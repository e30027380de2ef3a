"""One session of a run: an agent that learns, and what is done between its rollouts.

Between two rollouts, at a boundary, the session evaluates, logs and saves where that is due.
Evaluations and log rows depend on the number of steps alone, checkpoints also on the clock. Nothing
done at a boundary changes what is learnt, so a run is the same bit for bit, however many sessions
it took.
"""

import errno
import sys
import threading
import time
from contextlib import ExitStack, suppress

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from mviq.agents import Agent, DivergenceError
from mviq.runs import run_state
from mviq.runs.checkpoint import Checkpoint, Checkpoints, DamagedError
from mviq.runs.config import Config, remarks
from mviq.runs.directory import Result, RunDirectory, RunError
from mviq.runs.evaluation import evaluate, seed_of
from mviq.runs.records import saved_step
from mviq.runs.reporter import Reporter
from mviq.runs.stopping import Stopped
from mviq.runs.tables import Mark
from mviq.runs.tracking import Tables
from mviq.runs.video import check_filming, film

CHECKPOINT_SECONDS = 60.0  # of work after which a checkpoint is due, whatever the steps
COSTLY = 10  # a checkpoint that takes long is due only after so many times its own time
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Session(BaseCallback):
    """A session of a run: an agent, and what happens at the boundaries of its rollouts."""

    def __init__(
        self, directory: RunDirectory, config: Config, agent: Agent, reporter: Reporter
    ) -> None:
        super().__init__()
        self.directory, self.config, self.reporter = directory, config, reporter
        self.agent: Agent = agent
        self.checkpoints = Checkpoints(directory.checkpoints)
        self.tables = Tables(directory.progress, directory.timing, directory.evaluations)
        self.boundary, self.best = 0, -np.inf
        self.saved = (0, 0)  # step and boundary of the newest checkpoint
        self.asked = threading.Event()
        self._saved_at, self._saving_took = time.monotonic(), 0.0

    # Beginning

    def prepare(self) -> None:
        """Put the newest checkpoint into the agent, if there is one."""
        assert self.agent.env is not None
        hidden = run_state.hidden_in(self.agent.env)
        self.repeatable = hidden is None
        if self.config.video:
            check_filming(self.agent, self.config)
        begun = self.directory.progress.is_file()
        checkpoint = self.checkpoints.newest(self._check_tables, self.reporter.say)
        if checkpoint is not None and checkpoint.tree["config"] != self.config.hash:
            raise RunError(f"{self.directory.config_file} was changed after the run was begun")
        for name, table in self.tables.all.items():
            table.open(checkpoint.tables[name] if checkpoint else None)
        tensorboard = self.directory.tensorboard if self.config.track == "tensorboard" else None
        self.agent.set_logger(self.tables.logger(tensorboard))
        if checkpoint is not None:
            self._continue_from(checkpoint)
            return
        if begun:
            self.reporter.say("there is no checkpoint yet: beginning again at step 0")
        if hidden is not None:
            self.reporter.say(f"a resumed run will begin a new episode, since {hidden}")
        for remark in remarks(self.config):
            self.reporter.say(remark)

    def _check_tables(self, marks: dict[str, Mark]) -> None:
        for name, table in self.tables.all.items():
            if name not in marks or not table.matches(marks[name]):
                raise DamagedError(f"{table.path} is not as the checkpoint left it")

    def _continue_from(self, checkpoint: Checkpoint) -> None:
        assert self.agent.env is not None
        self.agent.env.reset()  # so that the environment is made of what it was made of
        run_state.restore_into(self.agent, checkpoint.tree["agent"], checkpoint.arrays)
        for ring in run_state.replay_rings(self.agent):
            self.checkpoints.fill(ring)
        self.boundary = int(checkpoint.tree["boundary"])
        self.saved = (checkpoint.step, self.boundary)
        self.best = float(checkpoint.tree["best"])
        self.reporter.say(f"continuing at step {checkpoint.step}")
        if checkpoint.tree["agent"]["env"] is None:
            self.reporter.say("the environment cannot give its state: starting a new episode here")
            run_state.begin_new_episodes(self.agent, self.config.seed)

    # Learning

    def learn(self) -> Result:
        """Learn to the end."""
        total, done = self.config.total_steps, self.agent.num_timesteps
        self.reporter.start(done, total)
        try:
            if done < total:
                self.agent.learn(
                    total - done,
                    callback=self,
                    log_interval=sys.maxsize,  # rows are due by steps, at boundaries
                    reset_num_timesteps=done == 0,
                )
            self._at_boundary(final=True)
        except DivergenceError as error:
            return self._ended(Result("diverged", self.agent.num_timesteps, str(error)))
        return self._ended(Result("finished", self.agent.num_timesteps))

    def _ended(self, result: Result) -> Result:
        self.tables.check_in_place()
        if result.status == "finished":
            self.agent.save(self.directory.model)
        self.tables.marks()  # on disk before anyone can read that the run is finished
        self.directory.finish(result)
        if not self.config.keep_checkpoint:
            self.checkpoints.remove()
        return result

    def _on_rollout_start(self) -> None:
        self._at_boundary()

    def _on_step(self) -> bool:
        return True

    def _at_boundary(self, final: bool = False) -> None:
        """Evaluate, log and save what is due; at the end of the run, everything is."""
        step, best = self.agent.num_timesteps, self.best
        save = self._checkpoint_due() or (final and self.config.keep_checkpoint)
        with suppress(Stopped):  # in an evaluation, which the next session makes instead
            self._measure(step, final)
        save = save or (self.best > best and not self.repeatable)
        stop = self.asked.is_set() and not (final and self.boundary == step)
        if stop:
            self.reporter.say(f"saving step {step}; Ctrl-C again to stop at once")
        if (save or stop) and self.saved != (step, self.boundary):
            self._save(step)
        if stop:
            raise Stopped(f"stopped at step {step}")
        self._show(step)

    def _checkpoint_due(self) -> bool:
        """Return whether one is due by the steps, or by the clock."""
        every = self.config.checkpoint_every
        longest = max(CHECKPOINT_SECONDS, COSTLY * self._saving_took)
        overdue = time.monotonic() - self._saved_at >= longest
        return overdue or (every is not None and self._due(every))

    def _due(self, every: int) -> bool:
        return self.agent.num_timesteps // every > self.boundary // every

    def _measure(self, step: int, final: bool) -> None:
        """Evaluate and log what is due since the boundary before."""
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
            self.agent.save(self.directory.best_model)
        self.reporter.say(f"step {step}: evaluation {mean:.1f} (best {self.best:.1f})")
        if self.config.video:
            film(self.agent, self.config, seed, self.directory.videos / f"step_{step}.mp4")

    def _save(self, step: int) -> None:
        began = time.monotonic()
        self.tables.check_in_place()
        tree, arrays = run_state.collect(self.agent)
        marks = self.tables.marks()
        content = {
            "agent": tree,
            "best": str(self.best),
            "boundary": self.boundary,
            "config": self.config.hash,
        }
        with ExitStack() as stack:
            if tree["env"] is None:
                stack.enter_context(run_state.last_episodes_cut_off(self.agent))
            rings = run_state.replay_rings(self.agent)
            self.checkpoints.write(Checkpoint(step, content, arrays, marks), rings)
        self.saved = (step, self.boundary)
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - began

    def _show(self, step: int) -> None:
        recent = self.agent.ep_info_buffer
        mean = sum(episode["r"] for episode in recent) / len(recent) if recent else None
        self.reporter.update(step, mean)

    # Ending

    def explain(self, error: OSError) -> str:
        """Return a line on what went wrong with a file, and what is safe."""
        place, step = self.directory.path, self.agent.num_timesteps
        cause = "the disk is full" if error.errno in _FULL else error.strerror or str(error)
        saved, kept = saved_step(self.directory), "there is no checkpoint"
        if saved:
            kept = f"the checkpoint of step {saved} is safe, 'mviq resume {place}' continues there"
        return f"cannot write {error.filename or place} at step {step}: {cause}; {kept}"

    def close(self) -> None:
        """Close the files, and end the display."""
        self.reporter.stop()
        if self.agent._custom_logger:
            self.agent.logger.close()
        self.tables.close()
