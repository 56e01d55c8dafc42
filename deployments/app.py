"""The application that serve_config.yaml names: `deployments.app:build`."""

# No postponed annotations here: Serve reads the type of `args` to validate it.

from typing import Any

import ray
from ray import serve
from ray.serve import Application, Deployment
from ray.serve.config import BackpressureConfig, DeploymentActorConfig

from deployments.composer import Composer
from deployments.config import AppArgs, IndexArgs, ScorerArgs
from deployments.embedder import Embedder
from deployments.index import is_local
from deployments.indexer import Indexer
from deployments.ingress import Ingress
from deployments.options import ConfigError
from deployments.recorder import Recorder
from deployments.retention import Retention
from deployments.retrieval import Retrieval
from deployments.scorer import Scorer

# Serve options of each deployment; `deployments:` in serve_config.yaml overrides them.
OPTIONS: dict[str, dict[str, Any]] = {
    "Ingress": {
        "max_ongoing_requests": 256,
        "max_queued_requests": 512,
        "backpressure_config": BackpressureConfig(status_code=429, retry_after_s=1),
        "graceful_shutdown_timeout_s": 5,
    },
    "Composer": {
        "max_ongoing_requests": 64,
        "max_queued_requests": 256,
        "graceful_shutdown_timeout_s": 5,
    },
    "Embedder": {"max_ongoing_requests": 64, "graceful_shutdown_timeout_s": 5},
    "Retrieval": {"max_ongoing_requests": 64, "graceful_shutdown_timeout_s": 5},
    "Scorer": {
        "max_ongoing_requests": 256,  # admission is the batcher's, in tokens
        "health_check_period_s": 5,
        "health_check_timeout_s": 60,  # more than a stuck batch is ever given
        "graceful_shutdown_timeout_s": 5,
    },
    # Single owners: the old replica stops before the new one starts.
    "Indexer": {
        "num_replicas": 1,
        "max_surge_percent": 0,
        "max_ongoing_requests": 32,
        "graceful_shutdown_timeout_s": 10,
    },
    "Recorder": {
        "num_replicas": 1,
        "max_surge_percent": 0,
        "max_ongoing_requests": 1000,
        "graceful_shutdown_timeout_s": 10,
    },
}
# Serve runs a replica's code and its router each on a loop of its own, so that code which blocks
# does no harm. Where none does, one loop for all saves a request two changes of thread a hop.
NEVER_BLOCKING = frozenset({"Ingress", "Composer", "Retrieval", "Embedder", "Scorer"})
ONE_LOOP = {
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
}
CPUS = 0.1  # what each reserves, but for the models; Retention reserves nothing


def build(args: AppArgs) -> Application:
    """Wire the deployments. Raises ConfigError, one line, for what cannot start."""
    check_cluster(args)
    recorder = deployment(Recorder, deployment_actors=[retention_actor(args)]).bind(args.tracker)
    embedder = (
        deployment(Embedder, args.embedder.num_cpus).bind(args.embedder) if args.embedder else None
    )
    local = local_scorer(args)
    scorer = deployment(Scorer, local.num_cpus).bind(local) if local else None
    retrieval = deployment(Retrieval).bind(args.index)
    indexer = deployment(Indexer).bind(
        args.index,
        args.chunking,
        tokenizer_model(args),
        embedder,
        recorder,
        local.max_tokens if local else None,
    )
    composer = deployment(Composer).bind(args, retrieval, embedder, scorer, recorder)
    parts = {
        "Composer": composer,
        "Retrieval": retrieval,
        "Indexer": indexer,
        "Recorder": recorder,
        "Embedder": embedder,
        "Scorer": scorer,
    }
    present = {name: part for name, part in parts.items() if part is not None}
    return deployment(Ingress).bind(present, args.limits, args.auth)


def deployment(cls: type, num_cpus: float = CPUS, **options: Any) -> Deployment:
    """Make a Serve deployment of a plain class, under its own name."""
    name = cls.__name__
    runtime_env = {"env_vars": ONE_LOOP} if name in NEVER_BLOCKING else {}
    return serve.deployment(
        name=name,
        ray_actor_options={"num_cpus": num_cpus, "runtime_env": runtime_env},
        # One line a request is the ingress's; the calls behind it would be six more.
        logging_config={"enable_access_log": name == "Ingress"},
        **OPTIONS[name],
        **options,
    )(cls)


def retention_actor(args: AppArgs) -> DeploymentActorConfig:
    return DeploymentActorConfig(
        name="retention",
        actor_class=Retention,
        init_kwargs={
            "policies": args.tracker.policies,
            "interval_hours": args.tracker.interval_hours,
            "start_jitter_s": args.tracker.start_jitter_s,
        },
        actor_options={"num_cpus": 0},
    )


def local_scorer(args: AppArgs) -> ScorerArgs | None:
    """The scorer that needs a deployment; a remote one is called by the Composer."""
    return args.scorer if isinstance(args.scorer, ScorerArgs) else None


def tokenizer_model(args: AppArgs) -> str | None:
    """Whose tokens size the chunks: the cross-encoder's, so that a chunk fits its window."""
    local = local_scorer(args)
    if local is not None:
        return local.model
    return args.embedder.model if args.embedder is not None else None


def check_cluster(args: AppArgs) -> None:
    """Refuse what this cluster can never start, instead of waiting for it for ever."""
    if not ray.is_initialized():
        return
    models = [part for part in (args.embedder, local_scorer(args)) if part is not None]
    others = OPTIONS.keys() - {"Embedder", "Scorer"}
    needed = CPUS * len(others) + sum(part.num_cpus for part in models)
    available = ray.cluster_resources().get("CPU", 0.0)  # type: ignore[no-untyped-call]
    if needed > available:
        raise ConfigError(
            f"the application needs {needed:g} CPUs at least and the cluster has {available:g}: "
            "lower scorer.num_cpus or add a node"
        )
    nodes = sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]
    if nodes > 1:
        check_shared(args.index)


def check_shared(index: IndexArgs) -> None:
    if is_local(index) and not index.shared_path:
        raise ConfigError(
            "index.uri is a local path and the cluster has several nodes: name object storage, "
            "or set index.shared_path if the path is the same folder on every node"
        )
