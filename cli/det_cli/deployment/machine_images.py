"""Public images of Google Cloud that user data turns into agents."""

# Ubuntu with NVIDIA's driver, which machines without GPUs can run too.
GPU_IMAGE = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580"
CPU_IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts"
