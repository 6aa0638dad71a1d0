# A Google account that lets machines on AWS use a Google bucket without a key.

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

variable "name" {
  description = "Prefix for names in Google Cloud, where the cluster's name is not a valid one; null for the cluster's name."
  type        = string
  default     = null

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$", coalesce(var.name, var.cluster_id)))
    error_message = "Give a `name` of a small letter, then at most 19 small letters, digits and hyphens, no hyphen at the end: Google Cloud does not allow the cluster's name."
  }
}

variable "aws_account_id" {
  description = "AWS account that the machines are in."
  type        = string
}

variable "machine_role" {
  description = "Name of the machines' role in AWS; null for the role that the example aws-for-gcp creates."
  type        = string
  default     = null
}

variable "bucket" {
  description = "Bucket of checkpoints."
  type        = string
}

locals {
  role = var.machine_role == null ? "det-${var.cluster_id}-machine" : var.machine_role
  name = "det-${coalesce(var.name, var.cluster_id)}"
}

provider "google" {
  project = var.project
}

# Google Cloud keeps the id of a deleted identity pool for 30 days. Each new pool has another id.
resource "terraform_data" "suffix" {
  input = substr(uuid(), 0, 6)

  lifecycle {
    ignore_changes = [input]
  }
}

resource "google_iam_workload_identity_pool" "aws" {
  workload_identity_pool_id = "${local.name}-${terraform_data.suffix.output}"
  display_name              = "${local.name} on EC2"
}

resource "google_iam_workload_identity_pool_provider" "aws" {
  workload_identity_pool_id          = google_iam_workload_identity_pool.aws.workload_identity_pool_id
  workload_identity_pool_provider_id = "aws"
  attribute_condition                = "attribute.aws_role == \"${local.role}\""

  attribute_mapping = {
    # The name of the role and its session. An ARN can be longer than a subject, which has at most 127 bytes.
    "google.subject"     = "assertion.arn.extract('assumed-role/{session}')"
    "attribute.aws_role" = "assertion.arn.extract('assumed-role/{role}/')"
  }

  aws {
    account_id = var.aws_account_id
  }
}

resource "google_service_account" "this" {
  account_id   = "${local.name}-ec2"
  display_name = "Machines of Determined ${var.cluster_id} on AWS"
}

resource "google_service_account_iam_member" "federation" {
  service_account_id = google_service_account.this.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.aws.name}/attribute.aws_role/${local.role}"
}

# The bucket may belong to a cluster on Google Cloud. The condition excludes the folder with the sources of its image.
resource "google_storage_bucket_iam_member" "this" {
  bucket = var.bucket
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.this.email}"

  condition {
    title       = "apart from sources of images"
    description = "A task must not change what a control plane runs."
    expression  = "!resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/builds/\")"
  }

  lifecycle {
    create_before_destroy = true
  }
}

output "google_credentials" {
  description = "Settings for the pool's section of type aws. They contain no secret."
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
