"""An agent that plays in a window."""

from typing import Any

from mviq.agents import Agent
from mviq.runs.config import Config
from mviq.runs.directory import RunError
from mviq.runs.evaluation import Episode, Way
from mviq.runs.video import FRAMES_PER_SECOND, Picture, play

LEAST_SIDE = 400  # pixels; the pictures of small games are enlarged


def show_episode(agent: Agent, config: Config, seed: int, way: Way = "greedy") -> Episode:
    """Show an episode, until it or the window is closed, and return what it came to."""
    pygame = _pygame()
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


def _window(pygame: Any, picture: Picture) -> Any:
    height, width = picture.shape[:2]
    scale = -(-LEAST_SIDE // min(height, width))
    pygame.display.init()
    return pygame.display.set_mode((scale * width, scale * height))


def _pygame() -> Any:
    try:
        import pygame
    except ImportError:
        raise RunError("a window needs an extra: pip install 'mviq[video]'") from None
    return pygame
