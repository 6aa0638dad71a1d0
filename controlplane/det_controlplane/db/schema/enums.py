"""Closed sets that only the database knows. The states of things with a life are in `core`."""

from enum import Enum


class SessionKind(str, Enum):
    USER = "user"
    ACCESS = "access"  # made by a user for programs
    ALLOCATION = "allocation"  # acts for the user of a task while that runs


class DeletionState(str, Enum):
    DELETING = "DELETING"
    DELETE_FAILED = "DELETE_FAILED"
    DELETED = "DELETED"


class JobKind(str, Enum):
    EXPERIMENT = "EXPERIMENT"
    NOTEBOOK = "NOTEBOOK"
    TENSORBOARD = "TENSORBOARD"
    SHELL = "SHELL"
    COMMAND = "COMMAND"
    CHECKPOINT_GC = "CHECKPOINT_GC"
    GENERIC = "GENERIC"


class DeviceType(str, Enum):
    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"


class EffectKind(str, Enum):
    """The kinds of effects in the outbox."""

    CHECKPOINT_GC = "checkpoint_gc"
    DELETE_EXPERIMENT = "delete_experiment"
    DELETE_OBJECT = "delete_object"
    DELETE_PROJECT = "delete_project"
    DELETE_WORKSPACE = "delete_workspace"
    WEBHOOK = "webhook"


class LogLevel(str, Enum):
    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class WorkloadType(str, Enum):
    EXPERIMENT = "EXPERIMENT"
    NTSC = "NTSC"  # notebooks, TensorBoards, shells and commands
