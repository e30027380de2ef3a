"""Films episodes of an agent as mp4 or gif, or shows them in a window."""

import errno
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from stable_baselines3.common.vec_env import VecEnv

from mviq.agents import Agent
from mviq.arrays import Array
from mviq.runs.building import make_env
from mviq.runs.config import Config
from mviq.runs.directory import RunError
from mviq.runs.evaluation import Episode, Game, Way, choose_actions
from mviq.runs.run_state import undisturbed_randomness
from mviq.storage import appearing

FRAMES_PER_SECOND = 30
MOST_FRAMES = 5_000
_NO_PICTURES = "{} cannot be filmed: it has no render_mode rgb_array"
LEAST_SIDE = 400  # pixels of a window; the frames of small games are enlarged


def play(
    agent: Agent, config: Config, seed: int, way: Way = "greedy"
) -> Iterator[tuple[Array, Episode]]:
    """Play one episode, and yield each frame with the return and length so far."""
    try:
        env = make_env(config, 1, seed, evaluation=True, render_mode="rgb_array")
    except TypeError:  # Gymnasium's, if an environment takes no render_mode
        raise RunError(_NO_PICTURES.format(config.env)) from None
    generator = np.random.default_rng(seed)
    try:
        game = Game(env)
        while not game.over and game.length < MOST_FRAMES:
            picture = _picture(env, config.env)
            yield picture, Episode(float(game.totals[0]), game.length)
            game.step(choose_actions(agent, game.observations, generator, way))
        # The environment may have reset itself: repeat the last frame with the final return.
        yield picture, Episode(float(game.totals[0]), game.length)
    finally:
        env.close()


def _picture(env: VecEnv, name: str) -> Array:
    try:
        picture = next(iter(env.get_images()))
    except DependencyNotInstalled:
        raise RunError("drawing needs an extra: pip install 'mviq[video]'") from None
    if picture is None:
        raise RunError(_NO_PICTURES.format(name))
    height, width = (2 * (side // 2) for side in picture.shape[:2])  # codecs need even sides
    return np.ascontiguousarray(picture[:height, :width], dtype=np.uint8)


def has_screen() -> bool:
    """Return whether there is a display to open a window on."""
    shown_elsewhere = platform.system() in ("Darwin", "Windows")
    return shown_elsewhere or any(os.environ.get(x) for x in ("DISPLAY", "WAYLAND_DISPLAY"))


def check_filming(agent: Agent, config: Config) -> None:
    """Check before training starts that an episode can be rendered and encoded."""
    _need_no_screen()
    with undisturbed_randomness():
        next(play(agent, config, config.seed))
    _ffmpeg()


def _need_no_screen() -> None:
    """Make pygame render to memory: filming must not depend on a display that may go away."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def film(agent: Agent, config: Config, seed: int, path: Path, way: Way = "greedy") -> Episode:
    """Write an episode to a file frame by frame, and return its return and length."""
    write = {".gif": _write_gif, ".mp4": _write_mp4}.get(path.suffix)
    if write is None:
        raise ValueError(f"a film must be named .mp4 or .gif, got {path}")
    _need_no_screen()
    reached = Episode(0.0, 0)

    def pictures() -> Iterator[Array]:
        nonlocal reached
        for picture, reached in play(agent, config, seed, way):  # noqa: B007 - for the caller
            yield picture

    with undisturbed_randomness(), appearing(path) as partial:
        write(partial, pictures())
    return reached


def _write_gif(path: Path, pictures: Iterator[Array]) -> None:
    from PIL import Image

    images = (Image.fromarray(picture) for picture in pictures)
    first = next(images)
    duration = 1000 // FRAMES_PER_SECOND
    first.save(path, save_all=True, append_images=images, duration=duration, loop=0)


def _write_mp4(path: Path, pictures: Iterator[Array]) -> None:
    program = _ffmpeg().get_ffmpeg_exe()
    first = next(pictures)
    height, width = first.shape[:2]
    taken = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {FRAMES_PER_SECOND} -i -".split()
    given = ["-vcodec", "libx264", "-pix_fmt", "yuv420p", str(path)]
    with subprocess.Popen(
        [program, "-y", "-loglevel", "error", *taken, *given],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must reach only the run, which finishes its film
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):  # its cause is read from stderr below
            for picture in chain([first], pictures):
                process.stdin.write(picture.tobytes())
        with suppress(BrokenPipeError):  # of what is left in the buffer
            process.stdin.close()
        complaint = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0:
        cause = complaint.split("\n")[-1].split("] ")[-1]  # without the name of ffmpeg's component
        raise OSError(errno.EIO, cause, str(path))


def show_episode(agent: Agent, config: Config, seed: int, way: Way = "greedy") -> Episode:
    """Show an episode until it ends or the window is closed; return its return and length."""
    pygame = _extra("pygame", "a window needs an extra")
    reached, screen, clock = Episode(0.0, 0), None, pygame.time.Clock()
    try:
        for picture, reached in play(agent, config, seed, way):
            screen = screen or _window(pygame, picture)
            pygame.display.set_caption(
                f"{config.env}: return {reached.total:g}, step {reached.length}"
            )
            image = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
            pygame.transform.scale(image, screen.get_size(), screen)
            pygame.display.flip()
            if any(event.type == pygame.QUIT for event in pygame.event.get()):
                break
            clock.tick(FRAMES_PER_SECOND)
    except pygame.error as error:
        raise RunError(f"no window can be opened: {error}; --film FILE writes a film") from None
    finally:
        pygame.display.quit()
    return reached


def _window(pygame: Any, picture: Array) -> Any:
    height, width = picture.shape[:2]
    scale = -(-LEAST_SIDE // min(height, width))
    pygame.display.init()
    return pygame.display.set_mode((scale * width, scale * height))


def _extra(module: str, need: str) -> Any:
    """Import a module of the extra ``video``."""
    try:
        return import_module(module)
    except ImportError:
        raise RunError(f"{need}: pip install 'mviq[video]'") from None


def _ffmpeg() -> Any:
    return _extra("imageio_ffmpeg", "an .mp4 needs an extra, a .gif does not")
