# The Google Cloud resources that a cluster on AWS needs to rent machines on Google Cloud without a
# key.

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

variable "aws_account_id" {
  description = "AWS account in which the cluster runs."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster on AWS."
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

variable "bucket" {
  description = "Google Cloud bucket that machines read and write."
  type        = string
}

locals {
  # The role of the only function that rents machines.
  role = "det-${var.cluster_id}-provision"
  name = "det-${coalesce(var.name, var.cluster_id)}"
}

variable "region" {
  description = "Region of the machines."
  type        = string
  default     = "us-central1"
}

variable "image" {
  description = "Boot image of the machines: Ubuntu with NVIDIA's driver, or an image that Packer built."
  type        = string
  default     = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580"
}

provider "google" {
  project = var.project
}

# Google Cloud keeps the id of a deleted identity pool for 30 days, and of a deleted role for weeks. New ones have other ids.
resource "terraform_data" "suffix" {
  input = substr(uuid(), 0, 6)

  lifecycle {
    ignore_changes = [input]
  }
}

resource "google_iam_workload_identity_pool" "aws" {
  workload_identity_pool_id = "${local.name}-${terraform_data.suffix.output}"
  display_name              = "${local.name} on AWS"
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

resource "google_service_account" "provision" {
  account_id   = "${local.name}-prov"
  display_name = "Rents machines for Determined ${var.cluster_id}"
}

resource "google_service_account_iam_member" "federation" {
  service_account_id = google_service_account.provision.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.aws.name}/attribute.aws_role/${local.role}"
}

module "renting" {
  source      = "../../modules/gcp/renting"
  project     = var.project
  role_prefix = "${replace(local.name, "-", "_")}_${terraform_data.suffix.output}"
  cluster_id  = var.cluster_id
  member      = "serviceAccount:${google_service_account.provision.email}"
}

module "network" {
  source   = "../../modules/gcp/network"
  name     = local.name
  region   = var.region
  cidr     = "10.70.0.0/20"
  nat      = false
  database = false
}

module "machines" {
  source     = "../../modules/gcp/machines"
  name       = local.name
  account_id = "${local.name}-vm"
  network_id = module.network.network_id
  bucket     = var.bucket
}

resource "google_service_account_iam_member" "machines" {
  service_account_id = module.machines.account_name
  role               = "roles/iam.serviceAccountUser"
  member             = "serviceAccount:${google_service_account.provision.email}"
}

output "credentials" {
  description = "Credentials file for `det deploy aws up --google-credentials FILE`: `terraform output -raw credentials > FILE`. It contains no secret."
  value = jsonencode({
    type                              = "external_account"
    audience                          = "//iam.googleapis.com/${google_iam_workload_identity_pool_provider.aws.name}"
    subject_token_type                = "urn:ietf:params:aws:token-type:aws4_request"
    token_url                         = "https://sts.googleapis.com/v1/token"
    service_account_impersonation_url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${google_service_account.provision.email}:generateAccessToken"
    credential_source = {
      environment_id                 = "aws1"
      regional_cred_verification_url = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
    }
  })
}

output "machine_account_id" {
  description = "Unique id of the machines' service account. The example aws-bucket-for-gcp needs it for a bucket in AWS."
  value       = module.machines.account_id
}

output "provider_section" {
  description = "Settings for the `provider` section of a pool, in addition to types and limits."
  value = jsonencode({
    type                   = "gcp"
    project                = var.project
    region                 = var.region
    boot_disk_source_image = var.image
    network_interface      = { network = module.network.network_id, subnetwork = module.network.machine_subnetwork_id, external_ip = true }
    service_account        = { email = module.machines.email, scopes = ["https://www.googleapis.com/auth/cloud-platform"] }
  })
}
