"""Trains one run from start to end, in one or more sessions."""

from contextlib import ExitStack, closing
from pathlib import Path

from mviq.processor import threads
from mviq.runs.building import build
from mviq.runs.checkpoint import Checkpoints
from mviq.runs.config import Config
from mviq.runs.directory import Result, RunDirectory, RunError, find_run, write_system
from mviq.runs.reporter import Reporter
from mviq.runs.session import Session
from mviq.runs.stopping import asked_to_stop
from mviq.runs.trackers import NOTHING, About
from mviq.storage import sync


def train(
    config: Config,
    root: Path | str = "runs",
    reporter: Reporter | None = None,
    about: About = NOTHING,
) -> Result:
    """Start or resume a run, and return its result; a run that has ended is not trained again.

    ``about`` names the study and label of the run, for experiment trackers.

    Raises ``Stopped`` if it was asked to stop, ``RunError`` if it cannot go on.
    """
    return _run(RunDirectory(Path(root) / config.name), config, reporter or Reporter(), about)


def resume(path: Path | str, reporter: Reporter | None = None) -> Result:
    """Resume the run in a directory, in the same way as ``train``."""
    directory = find_run(Path(path))
    return _run(directory, directory.config(), reporter or Reporter())


def _run(
    directory: RunDirectory, config: Config, reporter: Reporter, about: About = NOTHING
) -> Result:
    """Train what is left of a run. Nothing is written before its agent has been built."""
    ended = directory.result
    if ended is None:
        with ExitStack() as stack:
            stack.enter_context(threads(config.threads))
            agent = build(config)
            assert agent.env is not None
            stack.callback(agent.env.close)
            _make(directory.path)
            stack.enter_context(directory.locked())
            ended = directory.result  # another process may have been faster
            if ended is None:
                directory.settle(config)
                session = Session(directory, config, agent, reporter, about)
                return _learn(stack.enter_context(closing(session)))
    if not directory.config().keep_checkpoint:
        Checkpoints(directory.checkpoints).remove()  # in case their removal was interrupted
    return ended


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        sync(path.parent)
    except OSError as error:
        raise RunError(f"cannot use {error.filename or path}: {error.strerror}") from None


def _learn(session: Session) -> Result:
    session.directory.remove_unfinished()
    if changed := write_system(session.directory):
        session.reporter.say(f"versions changed, so bits may: {', '.join(changed)}")
    session.prepare()
    with asked_to_stop() as session.asked:
        try:
            return session.learn()
        except OSError as error:
            raise RunError(session.explain(error)) from error
