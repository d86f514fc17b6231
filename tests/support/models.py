"""Models of a user, for tests."""

from river import neighbors, preprocessing


def knn():
    """A model without a compiled form."""
    return preprocessing.StandardScaler() | neighbors.KNNRegressor(
        n_neighbors=3, engine=neighbors.LazySearch(window_size=50)
    )


def knn_classifier():
    """A classifier that is as slow as the regressor."""
    return preprocessing.StandardScaler() | neighbors.KNNClassifier(
        n_neighbors=3, engine=neighbors.LazySearch(window_size=50)
    )


def random_knn():
    """A model whose prediction draws from a generator of its own: not a function of the row."""
    return neighbors.KNNRegressor(n_neighbors=3, engine=neighbors.SWINN(maxlen=200, warm_up=50, seed=1))
