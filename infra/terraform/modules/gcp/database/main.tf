# Cloud SQL for PostgreSQL, reachable only inside the network and over TLS.

variable "name" {
  description = "Prefix of the instance's name."
  type        = string
}

variable "region" {
  description = "Region of the instance."
  type        = string
}

variable "tier" {
  description = "Machine type of the instance, like db-f1-micro or db-custom-2-7680."
  type        = string
}

variable "disk_gb" {
  description = "Initial size of the disk in gigabytes."
  type        = number
}

variable "highly_available" {
  description = "Run a standby in a second zone, at twice the price."
  type        = bool
}

variable "network_id" {
  description = "Network of the instance."
  type        = string
}

variable "peering" {
  description = "The network's peering with Cloud SQL, which must exist first."
  type        = string
}

variable "max_connections" {
  description = "Maximum number of connections."
  type        = number
}

variable "keep" {
  description = "Protect the instance from deletion, and keep backups and a week of logs for restores."
  type        = bool
}

variable "removal" {
  description = "Set while the cluster is being removed: ends the protection. A last backup is kept for a year."
  type        = string
}

variable "labels" {
  description = "Labels of the instance."
  type        = map(string)
}

locals {
  database = "determined"
  user     = "determined"
  # Two random ids of the built-in provider, created once. Users with access to Terraform's state can read the database.
  password = sensitive(sha256(terraform_data.password.output))
}

resource "terraform_data" "password" {
  input = "${uuid()}${uuid()}"

  lifecycle {
    ignore_changes = [input]
  }
}

# Cloud SQL may keep a deleted instance's name for a week. Each new instance has another name.
resource "terraform_data" "suffix" {
  input = substr(uuid(), 0, 6)

  lifecycle {
    ignore_changes = [input]
  }
}

resource "google_sql_database_instance" "this" {
  name                = "${var.name}-${terraform_data.suffix.output}"
  region              = var.region
  database_version    = "POSTGRES_16"
  deletion_protection = var.keep && var.removal == ""

  settings {
    tier                        = var.tier
    edition                     = "ENTERPRISE"
    availability_type           = var.highly_available ? "REGIONAL" : "ZONAL"
    disk_type                   = "PD_SSD"
    disk_size                   = var.disk_gb
    disk_autoresize             = true
    deletion_protection_enabled = var.keep && var.removal == ""
    user_labels                 = var.labels

    ip_configuration {
      ipv4_enabled    = false
      private_network = var.network_id
      ssl_mode        = "ENCRYPTED_ONLY"
      # This instance has its own certificate authority: a certificate that it signed proves that the server is this database.
      server_ca_mode = "GOOGLE_MANAGED_INTERNAL_CA"
    }

    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = var.keep
      transaction_log_retention_days = var.keep ? 7 : null

      backup_retention_settings {
        retained_backups = 7
      }
    }

    final_backup_config {
      enabled        = var.keep
      retention_days = var.keep ? 365 : null
    }

    database_flags {
      name  = "max_connections"
      value = tostring(var.max_connections)
    }
  }

  lifecycle {
    # Cloud SQL enlarges the disk, and cannot shrink it. With a fixed size, Terraform would replace the instance.
    ignore_changes = [settings[0].disk_size]

    precondition {
      condition     = var.peering != ""
      error_message = "The network has no peering with Cloud SQL."
    }
  }
}

resource "google_sql_database" "this" {
  name     = local.database
  instance = google_sql_database_instance.this.name
  # DROP DATABASE fails while clients are connected, including Cloud SQL's own agents. Deleting the instance deletes the database.
  deletion_policy = "ABANDON"
}

resource "google_sql_user" "this" {
  name     = local.user
  instance = google_sql_database_instance.this.name
  password = local.password
  # The user owns the tables, so PostgreSQL would refuse to delete it. Deleting the instance deletes the user.
  deletion_policy = "ABANDON"
}

output "instance" {
  description = "Name of the instance."
  value       = google_sql_database_instance.this.name
}

output "host" {
  description = "Address of the database inside the network."
  value       = google_sql_database_instance.this.private_ip_address
}

output "name" {
  description = "Name of the database."
  value       = google_sql_database.this.name
}

output "user" {
  description = "User that owns the tables."
  value       = google_sql_user.this.name
}

output "password" {
  description = "Password of the user."
  value       = local.password
  sensitive   = true
}

output "ca" {
  description = "Certificate of the authority that signed the database's certificate."
  value       = google_sql_database_instance.this.server_ca_cert[0].cert
}
