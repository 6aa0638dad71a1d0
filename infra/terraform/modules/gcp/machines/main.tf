# Service account of rented machines. They need no inbound access. The account reads and writes
# checkpoints and proves the machine's identity.

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "account_id" {
  description = "Id of the machines' service account."
  type        = string
}

variable "network_id" {
  description = "Network of the machines."
  type        = string
}

variable "bucket" {
  description = "Bucket of code and checkpoints."
  type        = string
}

resource "google_service_account" "this" {
  account_id   = var.account_id
  display_name = "Machines of ${var.name}"
}

# Tasks use this account. The condition excludes the folder with the sources of the control plane's image.
resource "google_storage_bucket_iam_member" "this" {
  bucket = var.bucket
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.this.email}"

  condition {
    title       = "apart from sources of images"
    description = "A task must not change what the control plane runs."
    expression  = "!resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/builds/\")"
  }

  # Running tasks keep their access when the condition changes.
  lifecycle {
    create_before_destroy = true
  }
}

# Traffic from outside stays blocked, because a network allows only the traffic of its rules.
resource "google_compute_firewall" "each_other" {
  name                    = "${var.name}-machines"
  description             = "Distributed training: machines of the cluster reach each other"
  network                 = var.network_id
  direction               = "INGRESS"
  source_service_accounts = [google_service_account.this.email]
  target_service_accounts = [google_service_account.this.email]

  allow {
    protocol = "all"
  }
}

output "email" {
  description = "Service account of rented machines."
  value       = google_service_account.this.email
}

output "account_id" {
  description = "Unique id of the account, by which other clouds identify it."
  value       = google_service_account.this.unique_id
}

output "account_name" {
  description = "Full name of the account."
  value       = google_service_account.this.name
}
