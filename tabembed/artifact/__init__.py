"""A model on disk: a folder that is written whole or not at all, and believed only after it was checked."""

from tabembed.artifact.model_folder import load as load
from tabembed.artifact.model_folder import read as read
from tabembed.artifact.model_folder import read_config as read_config
from tabembed.artifact.model_folder import write as write
from tabembed.artifact.refusal import CONFIG as CONFIG
from tabembed.artifact.refusal import MODEL as MODEL
from tabembed.artifact.refusal import ArtifactError as ArtifactError
