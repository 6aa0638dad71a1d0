# An AWS role that lets machines on Google Cloud use an S3 bucket without a key.

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
  description = "Name of the cluster."
  type        = string
}

variable "machine_account_id" {
  description = "Unique id of the machines' service account, a number: the example gcp-for-aws prints it."
  type        = string
}

variable "bucket_arn" {
  description = "Bucket of checkpoints."
  type        = string
}

variable "region" {
  description = "Region of the provider; roles have no region."
  type        = string
  default     = "us-east-1"
}

provider "aws" {
  region = var.region
}

# The token, signed by Google, must name the machine's account and this audience. Tokens with which machines join a cluster
# have another audience.
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
      values   = [var.machine_account_id]
    }

    condition {
      test     = "StringEquals"
      variable = "accounts.google.com:oaud"
      values   = ["determined-serverless-machine"]
    }
  }
}

data "aws_iam_policy_document" "storage" {
  statement {
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
    resources = ["${var.bucket_arn}/*"]
  }

  statement {
    actions   = ["s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetBucketLocation"]
    resources = [var.bucket_arn]
  }
}

resource "aws_iam_role" "this" {
  name               = "det-${var.cluster_id}-machine-of-gcp"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "storage" {
  name   = "storage"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.storage.json
}

output "aws_role_arn" {
  description = "ARN of the role, for the pool's section of type gcp."
  value       = aws_iam_role.this.arn
}
