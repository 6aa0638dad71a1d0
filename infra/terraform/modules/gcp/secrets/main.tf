# Secrets, each readable by the accounts that need it. A new value creates a new version and a new
# revision of the services.

variable "name" {
  description = "Prefix of the secrets' ids."
  type        = string
}

variable "values" {
  description = "Secrets by name."
  type        = map(string)
  sensitive   = true
}

variable "readers" {
  description = "Accounts and the secrets that each may read. The keys of the map are known before the accounts exist."
  type        = map(object({ account = string, secrets = list(string) }))
}

variable "location" {
  description = "Region of the secrets; empty to let Google choose. Policies of an organisation may require a region."
  type        = string
  default     = ""
}

variable "labels" {
  description = "Labels of the secrets."
  type        = map(string)
}

locals {
  names = nonsensitive(toset(keys(var.values)))
}

resource "google_secret_manager_secret" "this" {
  for_each  = local.names
  secret_id = "${var.name}-${each.key}"
  labels    = var.labels

  replication {
    dynamic "auto" {
      for_each = var.location == "" ? [1] : []

      content {}
    }

    dynamic "user_managed" {
      for_each = var.location == "" ? [] : [1]

      content {
        replicas {
          location = var.location
        }
      }
    }
  }
}

resource "google_secret_manager_secret_version" "this" {
  for_each    = local.names
  secret      = google_secret_manager_secret.this[each.key].id
  secret_data = var.values[each.key]
  # Instances of the serving revision read the previous version until the new revision serves. `det deploy gcp up`
  # destroys old versions after that. Deleting a secret deletes its versions.
  deletion_policy = "ABANDON"

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_secret_manager_secret_iam_member" "reader" {
  for_each  = merge([for reader, may in var.readers : { for secret in may.secrets : "${secret}/${reader}" => { secret = secret, reader = reader } }]...)
  secret_id = google_secret_manager_secret.this[each.value.secret].id
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${var.readers[each.value.reader].account}"
}

output "versions" {
  description = "Id and version of each secret, by name. Versions are numbers, because `latest` would change the secrets of running revisions at an unknown time."
  value = { for name in local.names : name => {
    secret  = google_secret_manager_secret.this[name].secret_id
    version = google_secret_manager_secret_version.this[name].version
  } }
  depends_on = [google_secret_manager_secret_iam_member.reader]
}
