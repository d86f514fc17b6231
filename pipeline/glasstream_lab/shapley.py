"""Exact Shapley values by enumeration, the reference for sampling estimators if there are few features.

A game v gives every set S of d players a worth. Its Shapley values are (Shapley 1953; paper 002, section 2)

    φ_i = Σ over S without i of (v(S with i) - v(S)) / (d · C(d-1, |S|))

`sage_game` is the game of SAGE. The worth of S is the decrease of the loss when the model sees the features in S of
every row instead of none.
"""

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import SettingsError
from glasstream.explain.losses import Loss, losses, with_classes
from glasstream.explain.sage.contributions import marginalised
from glasstream.models.predictors.predictor import Predictor

Game = Callable[[frozenset[int]], float]

MOST_PLAYERS = 20
"""Largest number of players; 20 players have about a million sets."""


def shapley_values(game: Game, players: int) -> NDArray[np.float64]:
    """Return the Shapley value of each player.

    Parameters
    ----------
    game
        Function that returns the worth of a set of players 0 .. players - 1. It is called once for each of the
        2**players sets.
    players
        Number d of players, at most `MOST_PLAYERS`.

    Returns
    -------
    (d,) values that add up to game(all) - game(none).

    Raises
    ------
    SettingsError
        There are more players than can be enumerated.

    Examples
    --------
    A left glove is worth nothing without a right one, of which there are two:

    >>> shapley_values(lambda hands: float(0 in hands and len(hands) > 1), 3).round(6).tolist()
    [0.666667, 0.166667, 0.166667]
    """
    if not 0 <= players <= MOST_PLAYERS:
        raise SettingsError([f"exact Shapley values: expected 0 to {MOST_PLAYERS} players, got {players}; use SAGE"])
    sets = range(1 << players)
    worth = [game(frozenset(i for i in range(players) if members >> i & 1)) for members in sets]
    values = np.zeros(players)
    for i in range(players):
        for members in sets:
            if not members >> i & 1:
                weight = 1.0 / (players * comb(players - 1, members.bit_count()))
                values[i] += weight * (worth[members | 1 << i] - worth[members])
    return values


def sage_game(
    predictor: Predictor,
    loss: Loss,
    rows: NDArray[np.float64],
    targets: NDArray[np.float64],
    background: NDArray[np.float64],
) -> Game:
    """Return the game whose Shapley values are the SAGE values with marginal removal.

    The features outside S take the values of every background row, and the predictions are averaged.

    Parameters
    ----------
    predictor, loss
        Model, and the name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`.
    rows, targets
        (n, d) and (n,), as for `glasstream.explain.sage.contributions.contributions`.
    background
        (m, d) background rows. Each set takes n·m evaluations.

    Returns
    -------
    The game. For a set of features it returns the mean loss over the n rows without features minus that with the set.
    """
    loss = with_classes(loss, predictor.classes)
    count, width = rows.shape

    def cost(members: frozenset[int]) -> float:
        if len(members) == width:
            said = predictor.evaluate(rows)
            return float(losses(loss, said.values, said.labels, targets).mean())
        mixed = np.tile(background, (count, 1, 1))
        for feature in members:
            mixed[:, :, feature] = rows[:, feature, None]
        values = predictor.evaluate(mixed.reshape(-1, width)).values
        means, labels, _ = marginalised(values.reshape(count, len(background), -1))
        return float(losses(loss, means, labels, targets).mean())

    nothing = cost(frozenset())
    return lambda members: nothing - cost(members)


def exact_sage(
    predictor: Predictor,
    loss: Loss,
    rows: NDArray[np.float64],
    targets: NDArray[np.float64],
    background: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return (d,) exact SAGE values of a data set, from 2**d sets with every row over every background row.

    Parameters and errors are those of `sage_game` and `shapley_values`. The background defaults to `rows`.
    """
    game = sage_game(predictor, loss, rows, targets, rows if background is None else background)
    return shapley_values(game, rows.shape[1])
