"""Read every file of the data sets, and report how many bytes there are."""

import os

import determined as det
from determined import data


def main() -> None:
    size = 0
    for one in data.data_sets():
        for file in data.files(one.at):
            with data.open(file.name) as f:
                size += len(f.read())
        try:
            with open(os.path.join(one.path, "new"), "w"):
                print(f"wrote to {one.at}")
        except OSError as e:
            print(f"cannot write to {one.at}: {e.strerror}")
    print(f"read {size} bytes")
    with det.core.init() as context:
        context.train.report_validation_metrics(1, {"loss": float(size)})


if __name__ == "__main__":
    main()
