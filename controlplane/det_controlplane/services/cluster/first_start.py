"""Prepare a new cluster: its identity and the first password of its built-in accounts."""

from det_controlplane.db.cluster import cluster
from det_controlplane.db.engine.database import Database
from det_controlplane.services.identity.passwords import client_hash, stored_hash


def cluster_identity(db: Database) -> str:
    with db.begin() as tx:
        return cluster.identity(tx)


def joined_agents(db: Database) -> list[cluster.JoinedAgent]:
    with db.begin() as tx:
        return cluster.joined_agents(tx)


def awaits_first_password(db: Database) -> bool:
    with db.begin() as tx:
        return cluster.awaits_first_password(tx)


def store_first_password(db: Database, password: str) -> bool:
    """Set the password of the accounts `admin` and `determined` if they have none. Return whether it was set."""
    if not awaits_first_password(db):
        return False
    # Deriving the hash takes long on purpose: not inside a transaction.
    hashed = stored_hash(client_hash(password))
    with db.begin() as tx:
        return cluster.set_first_password(tx, hashed) > 0
