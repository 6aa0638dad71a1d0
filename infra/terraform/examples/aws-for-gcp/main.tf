# The AWS resources that a cluster on Google Cloud needs to rent machines on AWS without a key.

terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.90"
    }
  }
}

variable "cluster_id" {
  description = "Name of the cluster on Google Cloud."
  type        = string
}

variable "provision_account_id" {
  description = "Unique id of the cluster's account that rents machines: provision_account_id in the output of `det deploy gcp status --json`."
  type        = string
}

variable "bucket_arn" {
  description = "S3 bucket that machines read and write."
  type        = string
}

variable "region" {
  description = "Region of the machines."
  type        = string
  default     = "us-east-1"
}

variable "zones" {
  description = "Availability zones of the machines; empty for the first two of the region."
  type        = list(string)
  default     = []
}

provider "aws" {
  region = var.region
}

data "aws_availability_zones" "this" {
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

data "aws_caller_identity" "current" {}

locals {
  name    = "det-${var.cluster_id}"
  account = data.aws_caller_identity.current.account_id
  zones   = length(var.zones) > 0 ? var.zones : slice(data.aws_availability_zones.this.names, 0, 2)
}

module "network" {
  source         = "../../modules/aws/network"
  name           = local.name
  cidr           = "10.70.0.0/16"
  zones          = { for number, zone in local.zones : zone => number }
  function_zones = local.zones
}

module "machines" {
  source               = "../../modules/aws/machines"
  name                 = local.name
  vpc_id               = module.network.vpc_id
  bucket_arn           = var.bucket_arn
  permissions_boundary = null
}

# The token, signed by Google, must name the cluster's account and the audience of Determined.
data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = ["accounts.google.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "accounts.google.com:sub"
      values   = [var.provision_account_id]
    }

    condition {
      test     = "StringEquals"
      variable = "accounts.google.com:oaud"
      values   = ["determined-serverless"]
    }
  }
}

data "aws_iam_policy_document" "provision" {
  statement {
    sid = "LookAtMachines"
    actions = [
      "ec2:DescribeInstances", "ec2:DescribeImages", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets", "pricing:GetProducts",
    ]
    resources = ["*"]
  }

  statement {
    sid       = "Images"
    actions   = ["ssm:GetParameters"]
    resources = ["arn:aws:ssm:*::parameter/aws/service/*"]
  }

  statement {
    sid       = "StartTaggedMachines"
    actions   = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreatePlacementGroup"]
    resources = [for kind in ["instance", "volume", "fleet", "launch-template", "spot-instances-request", "placement-group"] : "arn:aws:ec2:*:${local.account}:${kind}/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/determined-cluster"
      values   = [var.cluster_id]
    }
  }

  # Tags can be set only while a resource is created. Otherwise the cluster could tag other machines as its own.
  statement {
    sid       = "TagWhatIsMade"
    actions   = ["ec2:CreateTags"]
    resources = [for kind in ["instance", "volume", "fleet", "launch-template", "spot-instances-request", "placement-group"] : "arn:aws:ec2:*:${local.account}:${kind}/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/determined-cluster"
      values   = [var.cluster_id]
    }

    condition {
      test     = "StringEquals"
      variable = "ec2:CreateAction"
      values   = ["RunInstances", "CreateFleet", "CreateLaunchTemplate", "CreatePlacementGroup"]
    }
  }

  statement {
    sid     = "StartMachinesWith"
    actions = ["ec2:RunInstances", "ec2:CreateFleet"]
    resources = concat(
      [for kind in ["network-interface", "subnet", "security-group", "key-pair", "placement-group", "capacity-reservation", "launch-template"] : "arn:aws:ec2:*:${local.account}:${kind}/*"],
      ["arn:aws:ec2:*::image/*", "arn:aws:ec2:*::snapshot/*"],
    )
  }

  statement {
    sid       = "EndOwnMachines"
    actions   = ["ec2:TerminateInstances", "ec2:GetConsoleOutput", "ec2:DeleteLaunchTemplate", "ec2:DeletePlacementGroup"]
    resources = [for kind in ["instance", "launch-template", "placement-group"] : "arn:aws:ec2:*:${local.account}:${kind}/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/determined-cluster"
      values   = [var.cluster_id]
    }
  }

  statement {
    sid       = "PassMachineRole"
    actions   = ["iam:PassRole"]
    resources = [module.machines.role_arn]

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com"]
    }
  }

  statement {
    sid       = "SpotForTheFirstTime"
    actions   = ["iam:CreateServiceLinkedRole"]
    resources = ["arn:aws:iam::${local.account}:role/aws-service-role/*"]

    condition {
      test     = "StringEquals"
      variable = "iam:AWSServiceName"
      values   = ["spot.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "provision" {
  name               = "${local.name}-from-google"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "provision" {
  name   = "machines"
  role   = aws_iam_role.provision.id
  policy = data.aws_iam_policy_document.provision.json
}

output "role_arn" {
  description = "For `det deploy gcp up --var aws_role_arn=…`."
  value       = aws_iam_role.provision.arn
}

output "provider_section" {
  description = "Settings for the `provider` section of a pool, in addition to types and limits."
  value = jsonencode({
    type                     = "aws"
    region                   = var.region
    iam_instance_profile_arn = module.machines.instance_profile_arn
    network_interface = {
      subnet_ids        = module.network.public_subnet_ids
      security_group_id = module.machines.security_group_id
      public_ip         = true
    }
  })
}
