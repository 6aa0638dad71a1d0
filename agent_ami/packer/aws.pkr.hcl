# An image of EC2 whose machines become agents at once: agent_ami/packer/README.md
packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = "~> 1.3"
    }
  }
}

variable "region" {
  type    = string
  default = "us-west-2"
}

# A wheel, or its address: a cluster has its own below /agents/v1/wheel.
variable "agent_package" {
  type = string
}

variable "pull_images" {
  type    = list(string)
  default = []
}

# A subnet with a way to the internet, for an account without a default VPC. Packer finds its VPC.
variable "subnet_id" {
  type    = string
  default = ""
}

# Without a public address, Packer has to reach the machine at its private one, for example through a VPN.
variable "public_ip" {
  type    = bool
  default = true
}

# AWS's image with NVIDIA's driver: provision.sh adds the rest.
data "amazon-parameterstore" "base" {
  region = var.region
  name   = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
}

source "amazon-ebs" "agent" {
  region          = var.region
  source_ami      = data.amazon-parameterstore.base.value
  instance_type   = "g4dn.xlarge"
  ssh_username    = "ubuntu"
  subnet_id       = var.subnet_id
  ami_name        = "determined-agent-${formatdate("YYYYMMDDhhmmss", timestamp())}"
  ami_description = "Agent of Determined Serverless"
  encrypt_boot    = true
  imds_support    = "v2.0"

  # Subnets outside the default VPC give machines no public address by themselves.
  associate_public_ip_address = var.subnet_id == "" && var.public_ip ? null : var.public_ip

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_size           = 100
    volume_type           = "gp3"
    delete_on_termination = true
  }
}

build {
  sources = ["source.amazon-ebs.agent"]

  provisioner "shell" {
    script          = "${path.root}/provision.sh"
    execute_command = "sudo env {{ .Vars }} bash {{ .Path }}"
    environment_vars = [
      "AGENT_PACKAGE=${var.agent_package}",
      "PULL_IMAGES=${join(" ", var.pull_images)}",
    ]
  }
}
