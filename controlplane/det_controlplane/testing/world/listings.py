"""A process that lists experiments now and then sees what one sees that lists them for the first time."""

from det_controlplane.db.engine import Database
from det_controlplane.db.experiment_texts import ExperimentTexts
from det_controlplane.db.sql import text
from det_controlplane.testing.world.violation import Violation

_VERSIONS = text("""
    SELECT names_version, (SELECT string_agg(concat(id, '.', text_version), ',') FROM experiments) AS experiments
    FROM cluster
""")


class Listings:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept = ExperimentTexts()

    def check(self) -> None:
        told = self._db.read(_VERSIONS)[0]
        versions = told.experiments.split(",") if told.experiments else []
        kept = self._kept.of(self._db, told.names_version, versions)
        for version, now in ExperimentTexts().of(self._db, told.names_version, versions).items():
            if kept[version] != now:
                raise Violation(
                    f"experiment {version} is listed as {kept[version].decode()}, and is {now.decode()}"
                )
