"""Machine types of Compute Engine with list prices as of June 2025: dollars an hour, on demand, in us-central1."""

from decimal import Decimal

from .offers import MachineType

# Other regions cost about this much of us-central1's price; single types may differ from it.
REGIONS = {
    "us-central1": "1.00", "us-east1": "1.00", "us-east4": "1.13", "us-east5": "1.00",
    "us-south1": "1.18", "us-west1": "1.00", "us-west2": "1.20", "us-west3": "1.20",
    "us-west4": "1.13", "northamerica-northeast1": "1.10", "northamerica-northeast2": "1.10",
    "northamerica-south1": "1.20", "southamerica-east1": "1.59", "southamerica-west1": "1.43",
    "europe-central2": "1.29", "europe-north1": "1.10", "europe-north2": "1.10",
    "europe-southwest1": "1.18",
    "europe-west1": "1.10", "europe-west2": "1.29", "europe-west3": "1.29", "europe-west4": "1.10",
    "europe-west6": "1.40", "europe-west8": "1.16", "europe-west9": "1.16", "europe-west12": "1.16",
    "asia-east1": "1.16", "asia-east2": "1.40", "asia-northeast1": "1.28", "asia-northeast2": "1.28",
    "asia-northeast3": "1.28", "asia-south1": "1.20", "asia-south2": "1.20",
    "asia-southeast1": "1.23", "asia-southeast2": "1.35",
    "australia-southeast1": "1.42", "australia-southeast2": "1.42",
    "me-west1": "1.10", "me-central1": "1.16", "me-central2": "1.30", "africa-south1": "1.31",
}  # fmt: skip
SPOT_RATIO = Decimal("0.40")

_L4, _A100, _H100 = "NVIDIA L4", "NVIDIA A100", "NVIDIA H100"
# Name, GPUs, GPU, its memory in GiB, vCPUs, memory in GiB, price.
_GPU_TYPES = (
    ("g2-standard-4", 1, _L4, 24, 4, 16, "0.7068"),
    ("g2-standard-8", 1, _L4, 24, 8, 32, "0.8536"),
    ("g2-standard-12", 1, _L4, 24, 12, 48, "1.0004"),
    ("g2-standard-16", 1, _L4, 24, 16, 64, "1.1472"),
    ("g2-standard-32", 1, _L4, 24, 32, 128, "1.7344"),
    ("g2-standard-24", 2, _L4, 24, 24, 96, "2.0008"),
    ("g2-standard-48", 4, _L4, 24, 48, 192, "4.0016"),
    ("g2-standard-96", 8, _L4, 24, 96, 384, "8.0032"),
    ("a2-highgpu-1g", 1, _A100, 40, 12, 85, "3.6739"),
    ("a2-highgpu-2g", 2, _A100, 40, 24, 170, "7.3477"),
    ("a2-highgpu-4g", 4, _A100, 40, 48, 340, "14.6955"),
    ("a2-highgpu-8g", 8, _A100, 40, 96, 680, "29.3909"),
    ("a2-megagpu-16g", 16, _A100, 40, 96, 1360, "55.7395"),
    ("a2-ultragpu-1g", 1, _A100, 80, 12, 170, "5.0688"),
    ("a2-ultragpu-2g", 2, _A100, 80, 24, 340, "10.1376"),
    ("a2-ultragpu-4g", 4, _A100, 80, 48, 680, "20.2752"),
    ("a2-ultragpu-8g", 8, _A100, 80, 96, 1360, "40.5504"),
    ("a3-highgpu-1g", 1, _H100, 80, 26, 234, "11.0613"),
    ("a3-highgpu-2g", 2, _H100, 80, 52, 468, "22.1225"),
    ("a3-highgpu-4g", 4, _H100, 80, 104, 936, "44.2450"),
    ("a3-highgpu-8g", 8, _H100, 80, 208, 1872, "88.4900"),
    ("a3-megagpu-8g", 8, _H100, 80, 208, 1872, "92.2139"),
)
# Google Cloud starts these at once as spot machines only; other ways to get them reserve machines for a time.
SPOT_ONLY = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})
# GPUs for N1 types: the name in words, memory in GiB, price.
ATTACHED = {
    "nvidia-tesla-t4": ("NVIDIA T4", 16, Decimal("0.35")),
    "nvidia-tesla-v100": ("NVIDIA V100", 16, Decimal("2.48")),
    "nvidia-tesla-p100": ("NVIDIA P100", 16, Decimal("1.46")),
    "nvidia-tesla-p4": ("NVIDIA P4", 8, Decimal("0.60")),
}
# Family, GiB of memory and price of a vCPU, vCPUs of its sizes.
_CPU_FAMILIES = (
    ("n1-standard", 3.75, "0.0475", (1, 2, 4, 8, 16, 32, 64, 96)),
    ("n1-highmem", 6.5, "0.0592", (2, 4, 8, 16, 32, 64, 96)),
    ("n1-highcpu", 0.9, "0.0354", (2, 4, 8, 16, 32, 64, 96)),
    ("n2-standard", 4, "0.0486", (2, 4, 8, 16, 32, 48, 64, 80, 96, 128)),
    ("n2-highmem", 8, "0.0655", (2, 4, 8, 16, 32, 48, 64, 80, 96, 128)),
    ("n2-highcpu", 1, "0.0359", (2, 4, 8, 16, 32, 48, 64, 80, 96)),
    ("e2-standard", 4, "0.0335", (2, 4, 8, 16, 32)),
    ("e2-highmem", 8, "0.0452", (2, 4, 8, 16)),
    ("e2-highcpu", 1, "0.0247", (2, 4, 8, 16, 32)),
)


def types() -> dict[str, tuple[MachineType, Decimal]]:
    """Return the types by name, each with its price in us-central1."""
    machines = {
        name: (MachineType("gcp", name, gpus, gpu, gpu_gib, vcpus, gib), Decimal(price))
        for name, gpus, gpu, gpu_gib, vcpus, gib, price in _GPU_TYPES
    }
    for family, gib_each, price, sizes in _CPU_FAMILIES:
        for vcpus in sizes:
            name = f"{family}-{vcpus}"
            machine = MachineType("gcp", name, 0, "", 0, vcpus, vcpus * gib_each)
            machines[name] = (machine, vcpus * Decimal(price))
    return machines
