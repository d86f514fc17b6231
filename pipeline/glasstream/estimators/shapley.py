"""Exact Shapley values by enumeration: what every sampling estimator is compared with when there are few features.

For a game v that gives every set S of d players a worth (Shapley 1953; paper 002, section 2),

    φ_i = Σ over S without i of (v(S with i) - v(S)) / (d · C(d-1, |S|))

`sage_game` is the game of SAGE: how much less is lost by a model that is shown the features in S of every row than by
one that is shown none.
"""

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.typing import NDArray

from glasstream.errors import SettingsError
from glasstream.explain.isage import marginalised
from glasstream.explain.losses import Loss, losses, with_classes
from glasstream.models.predictor import Predictor

Game = Callable[[frozenset[int]], float]

MOST_PLAYERS = 20
"""A million sets."""


def shapley_values(game: Game, players: int) -> NDArray[np.float64]:
    """The Shapley value of each player.

    Parameters
    ----------
    game
        The worth of a set of players 0 .. players - 1; it is asked once for each of the 2**players sets.
    players
        d, at most `MOST_PLAYERS`.

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
    """The game that SAGE values are the Shapley values of, with marginal removal.

    The features outside S come from every one of the background rows, and the predictions are averaged.

    Parameters
    ----------
    predictor, loss
        The model, and a name of `glasstream.explain.losses.LOSSES` or a `CustomLoss`.
    rows, targets
        (n, d) and (n,), as for `glasstream.explain.isage.contributions`.
    background
        (m, d); n·m rows are evaluated for each set.

    Returns
    -------
    The game; of a set of features the mean over the n rows of the loss without features minus the loss with them.
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
    """(d,) the SAGE values of a data set, exact: 2**d sets, each with every row over every background row.

    Parameters and errors as for `sage_game` and `shapley_values`; the background is `rows` itself if none is given.
    """
    game = sage_game(predictor, loss, rows, targets, rows if background is None else background)
    return shapley_values(game, rows.shape[1])
