"""Pipelines as users have them, as factories of `model.name`: transformers and models of River."""

from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any

from river import (
    compose,
    dummy,
    ensemble,
    facto,
    feature_extraction,
    feature_selection,
    forest,
    imblearn,
    linear_model,
    model_selection,
    multiclass,
    naive_bayes,
    neighbors,
    optim,
    preprocessing,
    rules,
    stats,
    tree,
)

Factory = Callable[[], Any]
_EAGER = {"grace_period": 20, "tau": 0.2}


def numbers() -> Any:
    return compose.SelectType(Number)


def scaled() -> Any:
    return numbers() | preprocessing.StandardScaler()


def _logistic() -> Any:
    return linear_model.LogisticRegression(optim.SGD(0.05))


def _linear() -> Any:
    return linear_model.LinearRegression(optim.SGD(0.01))


def tree_of_two() -> Any:
    return tree.HoeffdingTreeClassifier(**_EAGER)


def neighbours(kind: type) -> Any:
    return kind(n_neighbors=3, engine=neighbors.LazySearch(window_size=40))


def ratio(x: Mapping[str, Any]) -> dict[str, Any]:
    return {"ratio": x.get("a", 0.0) / (1.0 + abs(x.get("b", 0.0)))}


def log_of(y: float) -> float:
    return y / 7.0


def of_log(y: float) -> float:
    return y * 7.0


TRANSFORMERS: dict[str, Factory] = {
    "standard_scaler": scaled,
    "min_max_scaler": lambda: numbers() | preprocessing.MinMaxScaler(),
    "max_abs_scaler": lambda: numbers() | preprocessing.MaxAbsScaler(),
    "robust_scaler": lambda: numbers() | preprocessing.RobustScaler(),
    "adaptive_scaler": lambda: numbers() | preprocessing.AdaptiveStandardScaler(),
    "normalizer": lambda: numbers() | preprocessing.Normalizer(),
    "binarizer": lambda: numbers() | preprocessing.Binarizer(),
    "feature_hasher": lambda: preprocessing.FeatureHasher(n_features=16, seed=1),
    "one_hot": lambda: (compose.Select("day") | preprocessing.OneHotEncoder()) + scaled(),
    "one_hot_of_all": preprocessing.OneHotEncoder,
    "one_hot_first": lambda: compose.SelectType(str) | preprocessing.OneHotEncoder(drop_first=True),
    "ordinal": preprocessing.OrdinalEncoder,
    "gaussian_projector": lambda: numbers() | preprocessing.GaussianRandomProjector(n_components=3, seed=1),
    "sparse_projector": lambda: numbers() | preprocessing.SparseRandomProjector(n_components=3, seed=1),
    "previous_imputer": lambda: _numbers_or_none() | preprocessing.PreviousImputer() | preprocessing.StandardScaler(),
    "mean_imputer": lambda: mean_imputer() | preprocessing.StandardScaler(),
    "mode_imputer": lambda: (
        compose.Select("day", "a") | preprocessing.StatImputer(("day", stats.Mode()), ("a", stats.Max()))
        | preprocessing.OneHotEncoder()
    ),
    "constant_imputer": lambda: (
        compose.Select("day") | preprocessing.StatImputer(("day", "none")) | preprocessing.OneHotEncoder()
    ),
    "imputer_in_a_union": lambda: scaled() + (compose.Select("b") | preprocessing.StatImputer(("b", stats.Mean()))),
    "agg": lambda: scaled() + feature_extraction.Agg(on="a", by="open", how=stats.Mean()),
    "target_agg": lambda: scaled() + feature_extraction.TargetAgg(by="open", how=stats.Mean()),
    "bag_of_words": lambda: feature_extraction.BagOfWords(on="day"),
    "tfidf": lambda: feature_extraction.TFIDF(on="day"),
    "polynomial": lambda: scaled() | feature_extraction.PolynomialExtender(),
    "rbf_sampler": lambda: scaled() | feature_extraction.RBFSampler(seed=1, n_components=5),
    "select_best": lambda: scaled() | feature_selection.SelectKBest(similarity=stats.PearsonCorr(), k=2),
    "variance_threshold": lambda: numbers() | feature_selection.VarianceThreshold(threshold=0.5, min_samples=20),
    "poisson_inclusion": lambda: numbers() | feature_selection.PoissonInclusion(p=0.3, seed=1),
    "select": lambda: compose.Select("a"),
    "discard": lambda: compose.Discard("day") | preprocessing.StandardScaler(),
    "renamer": lambda: scaled() | compose.Renamer({"a": "z"}),
    "prefixer": lambda: (scaled() | compose.Prefixer("p_")) + (numbers() | compose.Suffixer("_s")),
    "function": lambda: scaled() + (numbers() | compose.FuncTransformer(ratio)),
    "grouper": lambda: numbers() | compose.Grouper(preprocessing.StandardScaler(), by="open"),
    "product": lambda: (compose.Select("day") | preprocessing.OneHotEncoder()) * scaled(),
}  # fmt: skip
"""What stands before a linear model of both tasks."""


def _numbers_or_none() -> Any:
    return compose.Discard("day")


def mean_imputer() -> Any:
    return compose.Select("a", "b") | preprocessing.StatImputer(("a", stats.Mean()), ("b", stats.Quantile(0.5)))


CLASSIFIERS: dict[str, Factory] = {
    "logistic": lambda: scaled() | _logistic(),
    "perceptron": lambda: scaled() | linear_model.Perceptron(),
    "passive_aggressive": lambda: scaled() | linear_model.PAClassifier(),
    "alma": lambda: scaled() | linear_model.ALMAClassifier(),
    "softmax": lambda: scaled() | linear_model.SoftmaxRegression(),
    "gaussian_bayes": lambda: numbers() | naive_bayes.GaussianNB(),
    "bernoulli_bayes": lambda: feature_extraction.BagOfWords(on="day") | naive_bayes.BernoulliNB(),
    "multinomial_bayes": lambda: feature_extraction.BagOfWords(on="day") | naive_bayes.MultinomialNB(),
    "complement_bayes": lambda: feature_extraction.BagOfWords(on="day") | naive_bayes.ComplementNB(),
    "knn": lambda: scaled() | neighbours(neighbors.KNNClassifier),
    "tree": tree_of_two,
    "fast_tree": lambda: tree.ExtremelyFastDecisionTreeClassifier(grace_period=20, tau=0.2),
    "adaptive_tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(**_EAGER, seed=1),
    "gradient_tree": lambda: numbers() | tree.SGTClassifier(delta=0.1, grace_period=20),
    "last_tree": lambda: tree.LASTClassifier(),
    "forest": lambda: forest.ARFClassifier(n_models=3, seed=1, **_EAGER),
    "mondrian": lambda: numbers() | forest.AMFClassifier(n_estimators=3, seed=1),
    "bagging": lambda: ensemble.BaggingClassifier(tree_of_two(), n_models=3, seed=1),
    "adwin_bagging": lambda: ensemble.ADWINBaggingClassifier(tree_of_two(), n_models=3, seed=1),
    "leveraging_bagging": lambda: ensemble.LeveragingBaggingClassifier(tree_of_two(), n_models=3, seed=1),
    "bagging_of_pipelines": lambda: ensemble.BaggingClassifier(scaled() | _logistic(), n_models=3, seed=1),
    "patches": lambda: ensemble.SRPClassifier(tree_of_two(), n_models=3, seed=1),
    "adaboost": lambda: ensemble.AdaBoostClassifier(tree_of_two(), n_models=3, seed=1),
    "adwin_boosting": lambda: ensemble.ADWINBoostingClassifier(tree_of_two(), n_models=3, seed=1),
    "bole": lambda: ensemble.BOLEClassifier(tree_of_two(), n_models=3, seed=1),
    "voting": lambda: ensemble.VotingClassifier([tree_of_two(), numbers() | naive_bayes.GaussianNB()]),
    "stacking": lambda: ensemble.StackingClassifier(
        [scaled() | _logistic(), tree_of_two()],
        meta_classifier=linear_model.LogisticRegression(),
        include_features=False,
    ),
    "one_vs_rest": lambda: multiclass.OneVsRestClassifier(scaled() | _logistic()),
    "one_vs_one": lambda: multiclass.OneVsOneClassifier(scaled() | _logistic()),
    "output_codes": lambda: multiclass.OutputCodeClassifier(scaled() | _logistic(), code_size=5, seed=1),
    "factorization": lambda: numbers() | facto.FMClassifier(n_factors=3, seed=1),
    "field_factorization": lambda: facto.FFMClassifier(n_factors=3, seed=1),
    "under_sampler": lambda: imblearn.RandomUnderSampler(scaled() | _logistic(), desired_dist={0: 0.5, 1: 0.5}, seed=1),
    "hard_sampling": lambda: imblearn.HardSamplingClassifier(scaled() | _logistic(), size=20, p=0.5, seed=1),
    "no_change": dummy.NoChangeClassifier,
    "prior": dummy.PriorClassifier,
    **{f"{name}_logistic": lambda make=make: make() | _logistic() for name, make in TRANSFORMERS.items()},
}
REGRESSORS: dict[str, Factory] = {
    "linear": lambda: scaled() | _linear(),
    "passive_aggressive_regressor": lambda: scaled() | linear_model.PARegressor(),
    "bayesian": lambda: scaled() | linear_model.BayesianLinearRegression(),
    "knn_regressor": lambda: scaled() | neighbours(neighbors.KNNRegressor),
    "tree_regressor": lambda: numbers() | tree.HoeffdingTreeRegressor(**_EAGER),
    "tree_of_means": lambda: tree.HoeffdingTreeRegressor(**_EAGER, leaf_prediction="mean"),
    "adaptive_regressor": lambda: numbers() | tree.HoeffdingAdaptiveTreeRegressor(**_EAGER, seed=1),
    "gradient_regressor": lambda: numbers() | tree.SGTRegressor(delta=0.1, grace_period=20),
    "forest_regressor": lambda: numbers() | forest.ARFRegressor(n_models=3, seed=1, **_EAGER),
    "mondrian_regressor": lambda: numbers() | forest.AMFRegressor(n_estimators=3, seed=1),
    "oxt": lambda: numbers() | forest.OXTRegressor(n_models=3, seed=1),
    "rules": lambda: numbers() | rules.AMRules(n_min=20),
    "bagging_regressor": lambda: ensemble.BaggingRegressor(scaled() | _linear(), n_models=3, seed=1),
    "patches_regressor": lambda: ensemble.SRPRegressor(scaled() | _linear(), n_models=3, seed=1),
    "ewa": lambda: ensemble.EWARegressor([scaled() | _linear(), scaled() | linear_model.PARegressor()]),
    "greedy": lambda: model_selection.GreedyRegressor([scaled() | _linear(), scaled() | linear_model.PARegressor()]),
    "factorization_regressor": lambda: numbers() | facto.FMRegressor(n_factors=3, seed=1),
    "over_sampler": lambda: imblearn.ChebyshevOverSampler(scaled() | _linear()),
    "hard_sampling_regressor": lambda: imblearn.HardSamplingRegressor(scaled() | _linear(), size=20, p=0.5, seed=1),
    "target_scaler": lambda: scaled() | preprocessing.TargetStandardScaler(_linear()),
    "target_min_max_scaler": lambda: scaled() | preprocessing.TargetMinMaxScaler(_linear()),
    "target_transform": lambda: (
        scaled() | compose.TargetTransformRegressor(_linear(), func=log_of, inverse_func=of_log)
    ),
    "clipper": lambda: scaled() | preprocessing.PredClipper(_linear(), y_min=-5, y_max=5),
    "statistic": lambda: dummy.StatisticRegressor(stats.Mean()),
    **{f"{name}_linear": lambda make=make: make() | _linear() for name, make in TRANSFORMERS.items()},
}
# So that `model.name` can name each of them.
globals().update({f"make_{name}": make for name, make in {**CLASSIFIERS, **REGRESSORS}.items()})
