"""The map behind an MDP whose states are the tiles of a grid."""

from dataclasses import dataclass

LEFT, DOWN, RIGHT, UP = (0, -1), (1, 0), (0, 1), (-1, 0)


@dataclass(frozen=True)
class Grid:
    """Tiles row by row, and the (row, column) direction of every action.

    State ``row · columns + column`` is the tile there. A letter says what the tile is:
    S start, G goal, H hole, C cliff, # wall; anything else is free.

    >>> Grid(tiles=("S.", ".G"), moves=(LEFT, DOWN, RIGHT, UP)).shape
    (2, 2)
    """

    tiles: tuple[str, ...]
    moves: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.tiles or not self.tiles[0]:
            raise ValueError("a map needs at least one tile")
        for number, row in enumerate(self.tiles):
            if len(row) != len(self.tiles[0]):
                raise ValueError(
                    f"row {number} of the map has {len(row)} tiles, expected {len(self.tiles[0])}"
                )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.tiles), len(self.tiles[0])

    @property
    def letters(self) -> str:
        """The tiles in the order of the states."""
        return "".join(self.tiles)
