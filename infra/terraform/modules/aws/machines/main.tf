# Role and security group of rented machines. They need no inbound access. The role reads and writes
# checkpoints and proves the machine's identity.

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "vpc_id" {
  description = "Network of the machines."
  type        = string
}

variable "bucket_arn" {
  description = "Bucket of code and checkpoints."
  type        = string
}

variable "permissions_boundary" {
  description = "ARN of a permission boundary for the role, or null."
  type        = string
}

resource "aws_security_group" "this" {
  name        = "${var.name}-machines"
  description = "Rented machines: they reach out, and each other"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_egress_rule" "ipv4" {
  security_group_id = aws_security_group.this.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
  description       = "Everything out"
}

resource "aws_vpc_security_group_egress_rule" "ipv6" {
  security_group_id = aws_security_group.this.id
  ip_protocol       = "-1"
  cidr_ipv6         = "::/0"
  description       = "Everything out"
}

resource "aws_vpc_security_group_ingress_rule" "each_other" {
  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "-1"
  description                  = "Distributed training"
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
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
  name                 = "${var.name}-machine"
  assume_role_policy   = data.aws_iam_policy_document.assume.json
  permissions_boundary = var.permissions_boundary
}

resource "aws_iam_role_policy" "storage" {
  name   = "storage"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.storage.json
}

resource "aws_iam_instance_profile" "this" {
  name = "${var.name}-machine"
  role = aws_iam_role.this.name
}

output "security_group_id" {
  description = "Security group of rented machines."
  value       = aws_security_group.this.id
}

output "role_arn" {
  description = "Role of rented machines."
  value       = aws_iam_role.this.arn
}

output "instance_profile_arn" {
  description = "Instance profile of rented machines."
  value       = aws_iam_instance_profile.this.arn
}
