"""One run from beginning to end, in as many sessions as it takes."""

from contextlib import ExitStack
from pathlib import Path

from mviq.runs.building import check_learning, threads
from mviq.runs.checkpoint import Checkpoints
from mviq.runs.config import Config
from mviq.runs.directory import Result, RunDirectory, RunError, find_run, write_system
from mviq.runs.progress import Reporter
from mviq.runs.session import Session
from mviq.runs.stopping import asked_to_stop
from mviq.storage import sync


def train(config: Config, root: Path | str = "runs", reporter: Reporter | None = None) -> Result:
    """Start a run, or continue it, and return how it ended; one that has ended is left alone.

    Raises ``Stopped`` if it was asked to stop, ``RunError`` if it cannot go on.
    """
    directory = RunDirectory(Path(root) / config.name)
    if directory.result is None:
        check_learning(config)
        directory.path.mkdir(parents=True, exist_ok=True)
        sync(directory.path.parent)
    return _begin(directory, reporter or Reporter(), config)


def resume(path: Path | str, reporter: Reporter | None = None) -> Result:
    """Continue the run of a directory; otherwise as ``train``."""
    directory = find_run(Path(path))
    if directory.result is None:
        check_learning(directory.config())
    return _begin(directory, reporter or Reporter())


def _begin(directory: RunDirectory, reporter: Reporter, config: Config | None = None) -> Result:
    """Begin a session, unless the run has ended; a configuration given is that of the run."""
    ended = directory.result
    if ended is None:
        with directory.locked():
            ended = directory.result  # another process may have been faster
            if ended is None:
                if config is not None:
                    directory.settle(config)
                return _session(directory, directory.config(), reporter)
    if not directory.config().keep_checkpoint:
        Checkpoints(directory.checkpoints).remove()  # if that was interrupted
    return ended


def _session(directory: RunDirectory, config: Config, reporter: Reporter) -> Result:
    directory.remove_unfinished()
    changed = write_system(directory)
    if changed:
        reporter.say(f"versions changed, so bits may: {', '.join(changed)}")
    with ExitStack() as stack:
        stack.enter_context(threads(config.threads))
        session = Session(directory, config, reporter)
        stack.callback(session.close)
        session.prepare()
        session.asked = stack.enter_context(asked_to_stop())
        try:
            return session.learn()
        except OSError as error:
            raise RunError(session.explain(error)) from error
