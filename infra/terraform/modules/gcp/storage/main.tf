# The bucket of code and checkpoints: private, encrypted and versioned.

variable "bucket" {
  description = "Name of the bucket."
  type        = string
}

variable "location" {
  description = "Region, or a multi-region such as US."
  type        = string
}

variable "keep" {
  description = "Refuse to delete the bucket while it contains objects."
  type        = bool
}

variable "lifecycle_rules" {
  description = "Delete replaced versions after a month, and parts of incomplete uploads."
  type        = bool
}

variable "labels" {
  description = "Labels of the bucket."
  type        = map(string)
}

resource "google_storage_bucket" "this" {
  name                        = var.bucket
  location                    = var.location
  force_destroy               = !var.keep
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = var.labels

  versioning {
    enabled = true
  }

  # Versions already protect from deletion. Soft delete would store deleted objects a second time.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  dynamic "lifecycle_rule" {
    for_each = var.lifecycle_rules ? [1] : []

    content {
      action {
        type = "Delete"
      }

      condition {
        days_since_noncurrent_time = 30
        with_state                 = "ARCHIVED"
      }
    }
  }

  dynamic "lifecycle_rule" {
    for_each = var.lifecycle_rules ? [1] : []

    content {
      action {
        type = "AbortIncompleteMultipartUpload"
      }

      condition {
        age = 7
      }
    }
  }

  # The sources of images of the control plane.
  dynamic "lifecycle_rule" {
    for_each = var.lifecycle_rules ? [1] : []

    content {
      action {
        type = "Delete"
      }

      condition {
        age            = 1
        matches_prefix = ["builds/"]
      }
    }
  }
}

output "bucket" {
  description = "Name of the bucket."
  value       = google_storage_bucket.this.name
}
