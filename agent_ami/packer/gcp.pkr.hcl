# An image of Compute Engine, of the family that pools name by default: agent_ami/packer/README.md
packer {
  required_plugins {
    googlecompute = {
      source  = "github.com/hashicorp/googlecompute"
      version = "~> 1.1"
    }
  }
}

variable "project" {
  type = string
}

variable "zone" {
  type    = string
  default = "us-central1-a"
}

# An image family with NVIDIA's driver: provision.sh adds the rest.
variable "source_image_family" {
  type    = string
  default = "common-cu128-ubuntu-2204-nvidia-570"
}

# A wheel, or its address: a cluster has its own below /agents/v1/wheel.
variable "agent_package" {
  type = string
}

variable "pull_images" {
  type    = list(string)
  default = []
}

# A subnet of the zone's region, for a project without the network "default": a name, or the path of a shared one.
variable "subnetwork" {
  type    = string
  default = ""
}

# A network that makes its subnets by itself.
variable "network" {
  type    = string
  default = ""
}

# Without a public address, the machine needs Cloud NAT, and Packer a VPN or `iap`.
variable "public_ip" {
  type    = bool
  default = true
}

# Connect through Identity-Aware Proxy, which takes gcloud on this machine.
variable "iap" {
  type    = bool
  default = false
}

source "googlecompute" "agent" {
  project_id              = var.project
  zone                    = var.zone
  source_image_family     = var.source_image_family
  source_image_project_id = ["deeplearning-platform-release"]
  machine_type            = "n1-standard-4"
  accelerator_type        = "projects/${var.project}/zones/${var.zone}/acceleratorTypes/nvidia-tesla-t4"
  accelerator_count       = 1
  on_host_maintenance     = "TERMINATE"
  disk_size               = 100
  network                 = var.network
  subnetwork              = var.subnetwork
  tags                    = ["determined-image"]
  omit_external_ip        = !var.public_ip
  use_internal_ip         = !var.public_ip
  use_iap                 = var.iap
  ssh_username            = "packer"
  image_name              = "determined-agent-${formatdate("YYYYMMDDhhmmss", timestamp())}"
  image_family            = "determined-agent"
  image_description       = "Agent of Determined Serverless"
}

build {
  sources = ["source.googlecompute.agent"]

  provisioner "shell" {
    script          = "${path.root}/provision.sh"
    execute_command = "sudo env {{ .Vars }} bash {{ .Path }}"
    environment_vars = [
      "AGENT_PACKAGE=${var.agent_package}",
      "PULL_IMAGES=${join(" ", var.pull_images)}",
    ]
  }
}
