# Service account of rented machines. They need no inbound access. The account reads and writes
# checkpoints and proves the machine's identity.

variable "name" {
  description = "Prefix of the names of everything here."
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

# Tasks use this account. The condition excludes the sources of the control plane's image, which are in the same bucket.
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

# Nothing from outside: a network lets in only what a rule allows.
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
  description = "Unique id of that account, by which other clouds know it."
  value       = google_service_account.this.unique_id
}

output "account_name" {
  description = "Full name of that account."
  value       = google_service_account.this.name
}
