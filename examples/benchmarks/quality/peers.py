"""The encodings that people use today. Each is fitted on training rows and their target alone.

Text columns are categories, and numbers are numbers, for all of them. Those that leave numbers alone get
them with the median for missing ones, a column that says so, and unit variance.

What the training rows see of their own target: one-hot, ordinal and binary codes nothing; ``target`` nothing
(cross-fitted); ``catboost`` the targets of the rows before it; ``james_stein`` and ``entity`` all of them,
their own too, as those who use them do; ``skrub`` nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import category_encoders
import numpy as np
import pandas as pd
from entity import entity_embeddings
from models import Matrix
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from skrub import TableVectorizer

RARE = 0.001
"""Share of the rows below which one-hot puts a category with the other rare ones."""

Views = dict[str, tuple[Matrix, Matrix]]
"""Matrices of the training rows and of the test rows, by the name of a view; peers have one view, ``""``."""


def numbers() -> Any:
    return make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())


def with_numbers(encoder: Any) -> Callable[..., Views]:
    """An encoder of the categories, beside the prepared numbers."""

    def encode(train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, task: str, seed: int) -> Views:
        texts = list(train.select_dtypes(exclude="number"))
        rest = [name for name in train if name not in texts]
        if isinstance(encoder, TargetEncoder):
            folds = StratifiedKFold if task == "binary" else KFold
            encoder.set_params(cv=folds(5, shuffle=True, random_state=seed))
        parts = [("categories", encoder, texts), ("numbers", numbers(), rest)]
        both = ColumnTransformer([part for part in parts if part[2]])
        # category_encoders know objects alone as text.
        train, test = (rows.astype(dict.fromkeys(texts, object)) for rows in (train, test))
        return {"": (both.fit_transform(train, y), both.transform(test))}

    return encode


def skrub(train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, task: str, seed: int) -> Views:
    """skrub's own choice for every column; its numbers may be missing, which not all models take."""
    model = make_pipeline(TableVectorizer(), SimpleImputer(strategy="median", add_indicator=True))
    return {"": (model.fit_transform(train, y), model.transform(test))}


def entity(train: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, task: str, seed: int) -> Views:
    return {"": entity_embeddings(train, y, test, task, seed)}


PEERS: dict[str, Callable[..., Views]] = {
    "onehot": with_numbers(
        OneHotEncoder(min_frequency=RARE, handle_unknown="infrequent_if_exist", dtype=np.float32)
    ),
    "ordinal": with_numbers(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    ),
    "target": with_numbers(TargetEncoder()),
    "catboost": with_numbers(category_encoders.CatBoostEncoder()),
    "james_stein": with_numbers(category_encoders.JamesSteinEncoder()),
    "binary": with_numbers(category_encoders.BinaryEncoder()),
    "skrub": skrub,
    "entity": entity,
}
