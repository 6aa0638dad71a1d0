"""The shapes of answers about experiments, trials, jobs, tasks, people, workspaces, models and agents.

A record names the shape of its answer (`response=OneTrial`), and OpenAPI shows it. PostgreSQL writes most of this JSON;
tests/api/test_answers.py compares real answers with these shapes. Times are texts of RFC 3339."""

from typing import Any, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

Values = dict[str, Any]
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Values: {"type": "object"},
    Any: {},
}


class Pagination(TypedDict):
    offset: int
    limit: int
    startIndex: int
    endIndex: int
    total: int


class Deadline(TypedDict):
    time: str
    state: str  # ON_TRACK, LAST_CHANCE, IN_DANGER, MISSED or MET
    choice: str | None  # WAIT, SPOT or ON_DEMAND; null for any machine
    predictedEnd: str | None
    probability: float | None  # of an end in time
    reason: str
    decidedAt: str | None


class Experiment(TypedDict):
    config: Values
    id: int
    state: str
    duration: int  # seconds
    name: str
    description: str
    labels: list[str]
    notes: str
    archived: bool
    startTime: str
    endTime: str | None
    userId: int
    username: str
    displayName: str
    projectId: int
    projectName: str
    projectOwnerId: int
    parentArchived: bool
    workspaceId: int
    workspaceName: str
    jobId: str
    resourcePool: str
    unmanaged: bool
    externalExperimentId: str | None
    externalTrialId: str | None
    forkedFrom: int | None
    originalConfig: str
    modelDefinitionSize: int
    numTrials: int
    progress: float | None
    bestTrialId: int | None
    bestTrialSearcherMetric: float | None
    pachydermIntegration: Values | None
    searcherType: str | None
    searcherMetric: str
    hyperparameters: Values | None
    deadline: Deadline | None
    checkpointCount: int
    checkpointSize: str  # bytes; 64-bit numbers are texts
    trialIds: list[int]  # empty in listings


class JobSummary(TypedDict):
    state: str
    jobsAhead: int


class OneExperiment(TypedDict):
    experiment: Experiment
    config: Values
    jobSummary: JobSummary | None  # only while the experiment is in the queue


class Experiments(TypedDict):
    experiments: list[Experiment]
    pagination: Pagination


class Metrics(TypedDict):
    avgMetrics: Values
    batchMetrics: list[Any]


class Validation(TypedDict):
    totalBatches: int
    endTime: str
    numInputs: int
    metrics: Metrics


class TrialCheckpoint(TypedDict):
    uuid: str
    endTime: str
    state: str
    resources: Values
    totalBatches: int
    metadata: Values


class Trial(TypedDict):
    id: int
    experimentId: int
    state: str
    stoppedEarly: bool
    waitsForSearch: bool
    hparams: Values
    startTime: str
    endTime: str | None
    restarts: int
    totalBatchesProcessed: int
    runnerState: str
    taskId: str
    taskIds: list[str]
    searcherMetricValue: float | None
    summaryMetrics: Values
    metadata: Values | None
    warmStartCheckpointUuid: str | None
    logRetentionDays: int | None
    logPolicyMatched: str | None
    wallClockTime: float  # seconds
    firstRunTime: str | None
    checkpointCount: int
    totalCheckpointSize: str
    bestValidation: Validation | None
    latestValidation: Validation | None
    bestCheckpoint: TrialCheckpoint | None


class OneTrial(TypedDict):
    trial: Trial


class Trials(TypedDict):
    trials: list[Trial]
    pagination: Pagination


class CheckpointTraining(TypedDict):
    trialId: int | None
    experimentId: int | None
    experimentConfig: Values | None
    hparams: Values | None
    trainingMetrics: Metrics
    validationMetrics: Metrics
    searcherMetric: float | None


class Checkpoint(TypedDict):
    uuid: str
    taskId: str
    allocationId: str | None
    reportTime: str
    state: str
    resources: Values  # sizes by file
    metadata: Values
    storageId: int | None
    filesMissing: bool
    training: CheckpointTraining


class OneCheckpoint(TypedDict):
    checkpoint: Checkpoint


class Checkpoints(TypedDict):
    checkpoints: list[Checkpoint]
    pagination: Pagination


class _LimitedJob(TypedDict, total=False):
    expectedStart: str  # only for queued jobs with an estimate


class LimitedJob(_LimitedJob):
    """A job in a workspace that the caller may not see."""

    jobId: str
    type: str
    resourcePool: str
    workspaceId: int
    isPreemptible: bool
    requestedSlots: int
    allocatedSlots: int
    summary: JobSummary
    priority: int
    weight: float
    progress: float | None


class Job(LimitedJob):
    submissionTime: str
    username: str
    userId: int
    entityId: str  # of the experiment or the task
    name: str
    why: str


class Jobs(TypedDict):
    jobs: list[Job]
    pagination: Pagination


class JobEntry(TypedDict, total=False):
    """A job that the caller may see has `full`, another has `limited`."""

    full: Job
    limited: LimitedJob


class JobEntries(TypedDict):
    jobs: list[JobEntry]
    pagination: Pagination


class Allocation(TypedDict):
    allocationId: str
    taskId: str
    slots: int
    state: str
    isReady: bool
    startTime: str | None
    endTime: str | None
    exitReason: str | None
    statusCode: int | None
    exitKind: str | None
    agentIds: list[str]


class Task(TypedDict):
    taskId: str
    taskType: str
    startTime: str
    endTime: str | None
    allocations: list[Allocation]
    config: str | None
    parentId: str | None
    taskState: str
    noPause: bool
    forkedFrom: str | None
    name: str
    jobId: str
    username: str
    resourcePool: str
    workspaceId: int
    exitStatus: str


class OneTask(TypedDict):
    task: Task


class Done(TypedDict):
    """An empty object: the action has no result."""


class CreatedExperiment(TypedDict):
    experiment: Experiment
    config: Values
    warnings: list[str]
    configWarnings: list[str]


class EditedExperiment(TypedDict):
    experiment: Experiment


class AgentUserGroup(TypedDict):
    agentUid: int | None
    agentUser: str | None
    agentGid: int | None
    agentGroup: str | None


class User(TypedDict):
    id: int
    username: str
    admin: bool
    active: bool
    remote: bool
    displayName: str
    agentUserGroup: AgentUserGroup | None
    modifiedAt: str
    lastAuthAt: str | None


class SignedIn(TypedDict):
    token: str
    user: User


class OneUser(TypedDict):
    user: User


class Users(TypedDict):
    users: list[User]
    pagination: Pagination


class Workspace(TypedDict):
    id: int
    name: str
    archived: bool
    username: str
    userId: int
    immutable: bool
    errorMessage: str
    state: str
    agentUserGroup: AgentUserGroup | None
    checkpointStorageConfig: Values | None
    defaultComputePool: str
    defaultAuxPool: str
    numProjects: int
    numExperiments: int
    pinned: bool
    pinnedAt: str | None
    autoCreatedNamespace: str


class OneWorkspace(TypedDict):
    workspace: Workspace


class EditedWorkspace(OneWorkspace):
    namespaceBindings: Values  # empty: Kubernetes only


class Workspaces(TypedDict):
    workspaces: list[Workspace]
    pagination: Pagination


class Note(TypedDict):
    name: str
    contents: str


class Project(TypedDict):
    id: int
    name: str
    description: str
    key: str
    notes: list[Note]
    workspaceId: int
    userId: int
    username: str
    immutable: bool
    errorMessage: str
    workspaceName: str
    archived: bool
    state: str
    numExperiments: int
    numActiveExperiments: int
    numRuns: int
    lastExperimentStartedAt: str | None


class OneProject(TypedDict):
    project: Project


class Projects(TypedDict):
    projects: list[Project]
    pagination: Pagination


class Model(TypedDict):
    id: int
    name: str
    description: str
    metadata: Values
    labels: list[str]
    notes: str
    archived: bool
    workspaceId: int
    userId: int
    username: str
    creationTime: str
    lastUpdatedTime: str
    numVersions: int


class OneModel(TypedDict):
    model: Model


class Models(TypedDict):
    models: list[Model]
    pagination: Pagination


class Agent(TypedDict):
    id: str
    version: str
    productVersion: str
    registeredTime: str
    addresses: list[str]
    resourcePools: list[str]
    enabled: bool
    draining: bool
    disabled: bool  # by an administrator, also with --drain
    movesTo: str | None  # the pool that gets it after its work
    outOfService: str
    links: list[Any]  # [slot, slot, kind]
    dataCache: Values | None
    slots: Values  # by slot id
    containers: Values  # by container id
    slotStats: Values


class OneAgent(TypedDict):
    agent: Agent


class Agents(TypedDict):
    agents: list[Agent]
    pagination: Pagination


class CurvePoint(TypedDict):
    batches: int
    time: str
    epoch: float | None
    values: Values  # by metric


class Curve(TypedDict):
    group: str
    type: str
    data: list[CurvePoint]


class TrialCurves(TypedDict):
    trial: Trial
    metrics: list[Curve]


class ComparedTrials(TypedDict):
    trials: list[TrialCurves]


def schemas_of(shape: Any) -> dict[str, dict[str, Any]]:
    """Return the schema of a shape and of all shapes in it, by name."""
    schemas: dict[str, dict[str, Any]] = {}
    _add(shape, schemas)
    return schemas


def _add(shape: Any, schemas: dict[str, dict[str, Any]]) -> None:
    if shape.__name__ in schemas:
        return
    schema: dict[str, Any] = {"type": "object"}
    schemas[shape.__name__] = schema
    hints = get_type_hints(shape)
    schema["properties"] = {name: _schema(hint, schemas) for name, hint in hints.items()}
    if shape.__required_keys__:
        schema["required"] = sorted(shape.__required_keys__)


def _schema(hint: Any, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if is_typeddict(hint):
        _add(hint, schemas)
        return {"$ref": f"#/definitions/{hint.__name__}"}
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if get_origin(hint) is list:
        return {"type": "array", "items": _schema(get_args(hint)[0], schemas)}
    (inner,) = (option for option in get_args(hint) if option is not type(None))
    schema = _schema(inner, schemas)
    # A reference has no neighbours in Swagger 2.0.
    return (
        {"allOf": [schema], "x-nullable": True}
        if "$ref" in schema
        else {**schema, "x-nullable": True}
    )
