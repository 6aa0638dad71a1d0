# A cluster on AWS with an RDS database, a permissions boundary, and budget mails.

terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.90"
    }
  }
}

variable "zip" {
  description = "Path of the zip with the functions: `python -m det_controlplane.entry.aws.packaging DIRECTORY` builds it."
  type        = string
}

variable "permissions_boundary" {
  description = "ARN of the permission boundary for all roles."
  type        = string
}

variable "initial_user_password" {
  description = "Password of admin and determined at the first start."
  type        = string
  sensitive   = true
}

module "cluster" {
  source                  = "../../aws"
  cluster_id              = "research"
  region                  = "eu-central-1"
  zip                     = var.zip
  initial_user_password   = var.initial_user_password
  database                = "rds"
  database_instance_class = "db.t4g.small"
  permissions_boundary    = var.permissions_boundary
  monthly_budget_usd      = 2000
  budget_emails           = ["research-leads@example.com"]
}

output "url" {
  description = "Address of the cluster: DET_MASTER."
  value       = module.cluster.url
}
