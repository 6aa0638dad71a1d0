"""Machine types of Amazon EC2 with list prices as of June 2025: dollars an hour, on demand, Linux, in us-east-1."""

from decimal import Decimal

from .offers import MachineType

# Other regions cost about this much of us-east-1's price; single types may differ from it.
REGIONS = {
    "us-east-1": "1.00", "us-east-2": "1.00", "us-west-1": "1.20", "us-west-2": "1.00",
    "ca-central-1": "1.11", "ca-west-1": "1.16", "mx-central-1": "1.20", "sa-east-1": "1.60",
    "eu-west-1": "1.11", "eu-west-2": "1.16", "eu-west-3": "1.17", "eu-central-1": "1.25",
    "eu-central-2": "1.38", "eu-north-1": "1.06", "eu-south-1": "1.17", "eu-south-2": "1.11",
    "ap-northeast-1": "1.35", "ap-northeast-2": "1.23", "ap-northeast-3": "1.35",
    "ap-south-1": "1.10", "ap-south-2": "1.10", "ap-southeast-1": "1.30", "ap-southeast-2": "1.30",
    "ap-southeast-3": "1.30", "ap-southeast-4": "1.30", "ap-southeast-5": "1.20",
    "ap-southeast-7": "1.20", "ap-east-1": "1.40", "ap-east-2": "1.30",
    "me-south-1": "1.25", "me-central-1": "1.25", "il-central-1": "1.25", "af-south-1": "1.30",
}  # fmt: skip
# The typical ratio of spot and on-demand prices, used without a price history.
SPOT_RATIO = Decimal("0.45")

_T4, _A10G, _L4, _L40S = "NVIDIA T4", "NVIDIA A10G", "NVIDIA L4", "NVIDIA L40S"
_K80, _V100, _A100, _H100, _H200 = (
    "NVIDIA K80", "NVIDIA V100", "NVIDIA A100", "NVIDIA H100", "NVIDIA H200",
)  # fmt: skip

# Name, GPUs, GPU, its memory in GiB, vCPUs, memory in GiB, price.
_GPU_TYPES = (
    ("g4dn.xlarge", 1, _T4, 16, 4, 16, "0.526"),
    ("g4dn.2xlarge", 1, _T4, 16, 8, 32, "0.752"),
    ("g4dn.4xlarge", 1, _T4, 16, 16, 64, "1.204"),
    ("g4dn.8xlarge", 1, _T4, 16, 32, 128, "2.176"),
    ("g4dn.16xlarge", 1, _T4, 16, 64, 256, "4.352"),
    ("g4dn.12xlarge", 4, _T4, 16, 48, 192, "3.912"),
    ("g4dn.metal", 8, _T4, 16, 96, 384, "7.824"),
    ("g5.xlarge", 1, _A10G, 24, 4, 16, "1.006"),
    ("g5.2xlarge", 1, _A10G, 24, 8, 32, "1.212"),
    ("g5.4xlarge", 1, _A10G, 24, 16, 64, "1.624"),
    ("g5.8xlarge", 1, _A10G, 24, 32, 128, "2.448"),
    ("g5.16xlarge", 1, _A10G, 24, 64, 256, "4.096"),
    ("g5.12xlarge", 4, _A10G, 24, 48, 192, "5.672"),
    ("g5.24xlarge", 4, _A10G, 24, 96, 384, "8.144"),
    ("g5.48xlarge", 8, _A10G, 24, 192, 768, "16.288"),
    ("g6.xlarge", 1, _L4, 24, 4, 16, "0.8048"),
    ("g6.2xlarge", 1, _L4, 24, 8, 32, "0.9776"),
    ("g6.4xlarge", 1, _L4, 24, 16, 64, "1.3232"),
    ("g6.8xlarge", 1, _L4, 24, 32, 128, "2.0144"),
    ("g6.16xlarge", 1, _L4, 24, 64, 256, "3.3968"),
    ("g6.12xlarge", 4, _L4, 24, 48, 192, "4.6016"),
    ("g6.24xlarge", 4, _L4, 24, 96, 384, "6.6752"),
    ("g6.48xlarge", 8, _L4, 24, 192, 768, "13.3504"),
    ("g6e.xlarge", 1, _L40S, 48, 4, 32, "1.861"),
    ("g6e.2xlarge", 1, _L40S, 48, 8, 64, "2.24208"),
    ("g6e.4xlarge", 1, _L40S, 48, 16, 128, "3.00424"),
    ("g6e.8xlarge", 1, _L40S, 48, 32, 256, "4.52856"),
    ("g6e.16xlarge", 1, _L40S, 48, 64, 512, "7.57719"),
    ("g6e.12xlarge", 4, _L40S, 48, 48, 384, "10.49264"),
    ("g6e.24xlarge", 4, _L40S, 48, 96, 768, "15.06559"),
    ("g6e.48xlarge", 8, _L40S, 48, 192, 1536, "30.13118"),
    ("p2.xlarge", 1, _K80, 12, 4, 61, "0.900"),
    ("p2.8xlarge", 8, _K80, 12, 32, 488, "7.200"),
    ("p2.16xlarge", 16, _K80, 12, 64, 732, "14.400"),
    ("p3.2xlarge", 1, _V100, 16, 8, 61, "3.060"),
    ("p3.8xlarge", 4, _V100, 16, 32, 244, "12.240"),
    ("p3.16xlarge", 8, _V100, 16, 64, 488, "24.480"),
    ("p3dn.24xlarge", 8, _V100, 32, 96, 768, "31.212"),
    ("p4d.24xlarge", 8, _A100, 40, 96, 1152, "21.96"),
    ("p4de.24xlarge", 8, _A100, 80, 96, 1152, "27.45"),
    ("p5.4xlarge", 1, _H100, 80, 16, 256, "6.88"),
    ("p5.48xlarge", 8, _H100, 80, 192, 2048, "55.04"),
    ("p5en.48xlarge", 8, _H200, 141, 192, 2048, "63.296"),
)

_TO_24 = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "12xlarge": 48,
          "16xlarge": 64, "24xlarge": 96, "metal": 96}  # fmt: skip
_OF_C5 = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "9xlarge": 36, "12xlarge": 48,
          "18xlarge": 72, "24xlarge": 96, "metal": 96}  # fmt: skip
_TO_32 = {**_TO_24, "32xlarge": 128, "metal": 128}
# Family, GiB of memory and price of a vCPU, vCPUs by size.
_CPU_FAMILIES: tuple[tuple[str, float, str, dict[str, int]], ...] = (
    ("c4", 1.875, "0.0498", {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 36}),
    ("c5", 2, "0.0425", _OF_C5),
    ("c5d", 2, "0.048", _OF_C5),
    ("c5n", 2.625, "0.054", {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "9xlarge": 36,
                             "18xlarge": 72, "metal": 72}),
    ("c6i", 2, "0.0425", _TO_32),
    ("m4", 4, "0.05", {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "10xlarge": 40,
                       "16xlarge": 64}),
    ("m5", 4, "0.048", _TO_24),
    ("m5d", 4, "0.0565", _TO_24),
    ("m5dn", 4, "0.068", _TO_24),
    ("m5n", 4, "0.0595", _TO_24),
    ("m5zn", 4, "0.0826", {"large": 2, "xlarge": 4, "2xlarge": 8, "3xlarge": 12, "6xlarge": 24,
                           "12xlarge": 48, "metal": 48}),
    ("m6i", 4, "0.048", _TO_32),
)  # fmt: skip
# Name, vCPUs, memory in GiB, price.
_BURSTABLE = (
    ("t2.medium", 2, 4, "0.0464"), ("t2.large", 2, 8, "0.0928"),
    ("t2.xlarge", 4, 16, "0.1856"), ("t2.2xlarge", 8, 32, "0.3712"),
    ("t3.nano", 2, 0.5, "0.0052"), ("t3.micro", 2, 1, "0.0104"),
    ("t3.small", 2, 2, "0.0208"), ("t3.medium", 2, 4, "0.0416"),
    ("t3.large", 2, 8, "0.0832"), ("t3.xlarge", 4, 16, "0.1664"),
    ("t3.2xlarge", 8, 32, "0.3328"),
)  # fmt: skip


def types() -> dict[str, tuple[MachineType, Decimal]]:
    """Return the types by name, each with its price in us-east-1."""
    machines = {
        name: (MachineType("aws", name, gpus, gpu, gpu_gib, vcpus, gib), Decimal(price))
        for name, gpus, gpu, gpu_gib, vcpus, gib, price in _GPU_TYPES
    }
    for name, vcpus, gib, price in _BURSTABLE:
        machines[name] = (_cpu_type(name, vcpus, gib), Decimal(price))
    for family, gib_each, price, sizes in _CPU_FAMILIES:
        for size, vcpus in sizes.items():
            name = f"{family}.{size}"
            machines[name] = (_cpu_type(name, vcpus, vcpus * gib_each), vcpus * Decimal(price))
    return machines


def _cpu_type(name: str, vcpus: int, gib: float) -> MachineType:
    return MachineType("aws", name, 0, "", 0, vcpus, gib)
