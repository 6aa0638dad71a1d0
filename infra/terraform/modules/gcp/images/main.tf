# The registry of the control plane's image, and the account that Cloud Build uses.

variable "project" {
  description = "Id of the project."
  type        = string
}

variable "name" {
  description = "Id of the repository, and prefix of the builder's account."
  type        = string
}

variable "region" {
  description = "Region of the repository."
  type        = string
}

variable "bucket" {
  description = "Bucket with the sources of images in its folder builds/."
  type        = string
}

variable "labels" {
  description = "Labels of the repository."
  type        = map(string)
}

resource "google_artifact_registry_repository" "this" {
  repository_id = var.name
  location      = var.region
  format        = "DOCKER"
  description   = "Images of the control plane"
  labels        = var.labels

  # The last images stay, because a rollback may need them.
  cleanup_policies {
    id     = "keep-last"
    action = "KEEP"

    most_recent_versions {
      keep_count = 3
    }
  }

  cleanup_policies {
    id     = "delete-older"
    action = "DELETE"

    condition {
      older_than = "2592000s"
    }
  }
}

resource "google_service_account" "builder" {
  account_id   = "${var.name}-build"
  display_name = "Builds images of ${var.name}"
}

resource "google_artifact_registry_repository_iam_member" "builder" {
  repository = google_artifact_registry_repository.this.name
  location   = var.region
  role       = "roles/artifactregistry.writer"
  member     = "serviceAccount:${google_service_account.builder.email}"
}

# The bucket also contains checkpoints. The builder can read only the sources of images.
resource "google_storage_bucket_iam_member" "builder" {
  bucket = var.bucket
  role   = "roles/storage.objectViewer"
  member = "serviceAccount:${google_service_account.builder.email}"

  condition {
    title       = "sources of images"
    description = "What Cloud Build makes images from."
    expression  = "resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/builds/\")"
  }
}

resource "google_project_iam_member" "logs" {
  project = var.project
  role    = "roles/logging.logWriter"
  member  = "serviceAccount:${google_service_account.builder.email}"
}

output "repository" {
  description = "Address of the repository, to which images are pushed."
  value       = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.this.repository_id}"
}

output "builder" {
  description = "Service account that builds images."
  value       = google_service_account.builder.email
}
