# A cluster on Google Cloud with a database standby, and budget mails at 50, 80 and 100 %.

terraform {
  required_version = ">= 1.10"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.2, < 9.0"
    }
  }
}

variable "project" {
  description = "Id of the project."
  type        = string
}

variable "billing_account" {
  description = "Id of the billing account that pays for the project."
  type        = string
}

variable "image" {
  description = "Image of the control plane, with its digest."
  type        = string
}

variable "initial_user_password" {
  description = "Password of admin and determined at the first start."
  type        = string
  sensitive   = true
}

module "cluster" {
  source                    = "../../gcp"
  cluster_id                = "research"
  project                   = var.project
  region                    = "us-central1"
  image                     = var.image
  initial_user_password     = var.initial_user_password
  database_tier             = "db-custom-2-7680"
  database_highly_available = true
  database_max_connections  = 200
  api_instances             = 10
  billing_account           = var.billing_account
  monthly_budget_usd        = 2000
  budget_emails             = ["research-leads@example.com"]
}

output "url" {
  description = "Address of the cluster: DET_MASTER."
  value       = module.cluster.url
}
