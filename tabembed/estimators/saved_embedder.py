"""A fitted embedder as plain JSON and named arrays, and back."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import nn

import tabembed.nn
from tabembed import artifact
from tabembed.artifact import ArtifactError
from tabembed.artifact.sound import check_names
from tabembed.training.network import MAKERS
from tabembed.training.objective import Objective

_FITTED = ("target_type_", "n_iter_", "validation_losses_", "n_features_in_", "_fingerprint")
_NESTED = ("embedding", "sequence")
"""Arguments of networks that are keywords themselves."""


class SavedEmbedder(BaseEstimator):
    """What an embedder needs to be saved, loaded and pickled, and stays small in: its weights are arrays.

    A class that has this says what its encoder and its network are. Its fit calls ``_set_fitted`` and sets
    ``_fingerprint``.
    """

    _encoder_class: Any
    _network_class: Any
    max_iter: int

    def _set_fitted(
        self, encoder: Any, network: Any, built: dict[str, Any], *, objective: Objective, losses: list[float]
    ) -> None:
        """What a fit leaves, but for the mark of its rows."""
        for part in filter(None, (encoder, getattr(encoder, "table_encoder_", None))):
            part._state = None  # no rows are added to an embedder's, so it keeps none of their values
        self.encoder_, self.network_, self._built = encoder, network, built
        self.target_type_, self.classes_ = objective.target_type, objective.classes
        self.validation_losses_, self.n_iter_ = losses, len(losses) - 1 if losses else int(self.max_iter)

    def save(self, path: Any) -> None:
        """Write the fitted embedder as a folder, without pickle.

        Args:
            path: the folder.

        Raises: ValueError when ``numeric``, ``time``, ``cv`` or ``random_state`` is an object that has no
            place in such a folder.
        """
        check_is_fitted(self)
        artifact.write(path, type(self).__name__, *_to_artifact(self))

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a folder that ``save`` wrote.

        Raises: ArtifactError when it is not a complete model that this version can read.
        """
        return artifact.load(path, {cls.__name__: cls.from_artifact})

    @classmethod
    def from_artifact(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild what ``save`` wrote, given its config and its arrays."""
        return _from_artifact(cls, config, arrays)

    def __getstate__(self) -> dict[str, Any]:
        """Weights as arrays: they load without a GPU, and joblib can hash them."""
        state = super().__getstate__().copy()
        if "network_" in state:
            state["network_"] = weights(state["network_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "network_" in state:
            self.network_ = _rebuild(self, state["network_"])


def weights(network: nn.Module) -> dict[str, np.ndarray]:
    """Every weight of a network as an array of its own."""
    return {name: tensor.cpu().numpy().copy() for name, tensor in network.state_dict().items()}


def _to_artifact(embedder: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    params = embedder.get_params(deep=False)
    default = params.pop("encoder") is None
    encoder, encoder_arrays = embedder.encoder_.to_artifact()
    names = getattr(embedder, "feature_names_in_", None)
    classes = embedder.classes_
    config = {
        "params": {name: _to_json(name, value) for name, value in params.items()},
        "built": {name: _to_json(name, value) for name, value in embedder._built.items()},
        "default_encoder": default,
        "encoder": encoder,
        "classes": None if classes is None else classes.tolist(),
        "feature_names_in": None if names is None else names.tolist(),
        "fitted": {name: getattr(embedder, name) for name in _FITTED},
    }
    arrays = {f"encoder.{name}": array for name, array in encoder_arrays.items()}
    arrays |= {f"network.{name}": array for name, array in weights(embedder.network_).items()}
    return config, arrays


def _from_artifact(cls: Any, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    params = {name: _from_json(name, value) for name, value in config["params"].items()}
    encoder = cls._encoder_class.from_artifact(config["encoder"], _part(arrays, "encoder."))
    embedder = cls(None if config["default_encoder"] else clone(encoder), **params)
    embedder.encoder_ = encoder
    embedder._built = {name: _from_json(name, value) for name, value in config["built"].items()}
    embedder.network_ = _rebuild(embedder, _part(arrays, "network."))
    for name in arrays:
        if not name.startswith(("encoder.", "network.")):
            raise ArtifactError(
                f"array {name!r:.80} must be the encoder's or the network's, got no use for it"
            )
    _check_fitted(embedder, config)
    embedder.classes_ = None if config["classes"] is None else np.array(config["classes"])
    if config["feature_names_in"] is not None:
        embedder.feature_names_in_ = np.array(config["feature_names_in"], dtype=object)
    for name in _FITTED:
        setattr(embedder, name, config["fitted"][name])
    return embedder


def _check_fitted(embedder: Any, config: dict[str, Any]) -> None:
    """What a fit leaves beside the encoder and the network is of the right kinds."""
    fitted, names = config["fitted"], config["feature_names_in"]
    classes, losses = config["classes"], fitted["validation_losses_"]
    sound = {
        "classes": classes is None or (isinstance(classes, list) and len({*map(type, classes)}) <= 1),
        "feature_names_in": names is None or len(names) == fitted["n_features_in_"],
        "n_features_in_": fitted["n_features_in_"] == embedder.encoder_.n_features_in_,
        "n_iter_": type(fitted["n_iter_"]) is int and fitted["n_iter_"] >= 0,
        "target_type_": isinstance(fitted["target_type_"], str),
        "validation_losses_": isinstance(losses, list) and {*map(type, losses)} <= {int, float},
        "_fingerprint": isinstance(fitted["_fingerprint"], str | int),
    }
    if names is not None:
        check_names(feature_names_in=names)
    for name, is_sound in sound.items():
        if not is_sound:
            raise ArtifactError(
                f"{name} must be as a fit leaves it, got {config.get(name, fitted.get(name))!r:.60}"
            )


def _rebuild(embedder: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Make the network again from what it was built with and its weights, without drawing any."""
    n_layers = embedder._built.get("sequence", {}).get("num_layers", 1)
    n_layers += len(embedder._built.get("hidden_layer_sizes", ()))
    if n_layers > len(arrays) + 1:  # modules cost memory on any device
        raise ArtifactError(f"num_layers must be at most the number of arrays, {len(arrays)}, got {n_layers}")
    # On the meta device nothing is allocated: a wrong width is an error before it is memory.
    with torch.device("meta"):
        network = embedder._network_class(embedder.encoder_.schema_, **embedder._built)
    for name, tensor in network.state_dict().items():
        wanted = str(tensor.dtype).removeprefix("torch.")
        if name in arrays and arrays[name].dtype.name != wanted:
            raise ArtifactError(f"array {name!r:.80} must be {wanted}, got {arrays[name].dtype}")
    network.load_state_dict({name: torch.from_numpy(a.copy()) for name, a in arrays.items()}, assign=True)
    network.eval()
    return network.requires_grad_(False)


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _to_json(name: str, value: Any) -> Any:
    if name in MAKERS:
        return _maker_to_json(name, value)
    if name in _NESTED:
        return {inner: _to_json(inner, value[inner]) for inner in value}
    try:
        return json.loads(json.dumps(value, default=_plain))
    except TypeError:
        raise ValueError(f"{name} must be plain numbers or text to be saved, got {value!r}") from None


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError


def _from_json(name: str, value: Any) -> Any:
    if name in MAKERS and value is not None:
        maker = getattr(tabembed.nn, _allowed(name, value[name])).from_columns
        return partial(maker, **value["keywords"]) if value["keywords"] else maker
    if name in _NESTED:
        return {inner: _from_json(inner, value[inner]) for inner in value}
    return tuple(value) if isinstance(value, list) else value


def _maker_to_json(argument: str, given: Any) -> Any:
    """The name of a module of ``tabembed.nn`` and its keywords; the maker itself is never saved."""
    if given is None:
        return None
    keywords, maker = {}, given
    if isinstance(maker, partial) and not maker.args:
        keywords, maker = maker.keywords, maker.func
    module = maker if isinstance(maker, type) else getattr(maker, "__self__", None)
    name = getattr(module, "__name__", "")
    if name not in tabembed.nn.__all__ or getattr(tabembed.nn, name) is not module:
        raise ValueError(
            f"{argument} must be None, a module of tabembed.nn or a functools.partial of one to be saved, "
            f"got {given!r}"
        )
    return {argument: name, "keywords": _to_json(f"{argument}'s keywords", keywords)}


def _allowed(argument: str, name: str) -> str:
    if name not in tabembed.nn.__all__ or not hasattr(getattr(tabembed.nn, name), "from_columns"):
        raise ArtifactError(f"{argument} must be a module of tabembed.nn that has from_columns, got {name!r}")
    return name
