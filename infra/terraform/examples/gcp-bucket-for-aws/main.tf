# In a project of Google Cloud: an account by which machines of AWS use a bucket there, without a key.

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

variable "cluster_id" {
  description = "Name of the cluster."
  type        = string
}

variable "aws_account_id" {
  description = "Account of AWS that the machines are in."
  type        = string
}

variable "machine_role" {
  description = "Name of the machines' role there; null for the one that the example aws-for-gcp makes."
  type        = string
  default     = null
}

variable "bucket" {
  description = "Bucket of checkpoints."
  type        = string
}

locals {
  role = var.machine_role == null ? "det-${var.cluster_id}-machine" : var.machine_role
}

provider "google" {
  project = var.project
}

resource "google_iam_workload_identity_pool" "aws" {
  workload_identity_pool_id = "det-${var.cluster_id}-machines"
  display_name              = "Determined ${var.cluster_id} on AWS"
}

resource "google_iam_workload_identity_pool_provider" "aws" {
  workload_identity_pool_id          = google_iam_workload_identity_pool.aws.workload_identity_pool_id
  workload_identity_pool_provider_id = "aws"
  attribute_condition                = "attribute.aws_role == \"${local.role}\""

  attribute_mapping = {
    "google.subject"     = "assertion.arn"
    "attribute.aws_role" = "assertion.arn.extract('assumed-role/{role}/')"
  }

  aws {
    account_id = var.aws_account_id
  }
}

resource "google_service_account" "this" {
  account_id   = "det-${var.cluster_id}-ec2"
  display_name = "Machines of Determined ${var.cluster_id} on AWS"
}

resource "google_service_account_iam_member" "federation" {
  service_account_id = google_service_account.this.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.aws.name}/attribute.aws_role/${local.role}"
}

resource "google_storage_bucket_iam_member" "this" {
  bucket = var.bucket
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.this.email}"
}

output "google_credentials" {
  description = "For the pool's section of type aws. It holds no secret."
  value = jsonencode({
    type                              = "external_account"
    audience                          = "//iam.googleapis.com/${google_iam_workload_identity_pool_provider.aws.name}"
    subject_token_type                = "urn:ietf:params:aws:token-type:aws4_request"
    token_url                         = "https://sts.googleapis.com/v1/token"
    service_account_impersonation_url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${google_service_account.this.email}:generateAccessToken"
    credential_source = {
      environment_id                 = "aws1"
      regional_cred_verification_url = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
    }
  })
}
