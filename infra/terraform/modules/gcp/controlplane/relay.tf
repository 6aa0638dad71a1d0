# The relay: agents connect to it, and it carries traffic to notebooks, shells, TensorBoards and ports of tasks. It has one
# instance at most, and none while no such task runs. The API forwards requests for tasks to it. It has no other routes.

locals {
  relay_url = var.relay ? { DET_RELAY_URL = local.urls.relay } : {}
}

resource "google_service_account" "relay" {
  count        = var.relay ? 1 : 0
  account_id   = "${var.name}-relay"
  display_name = "Determined ${var.cluster_id}: relay"
}

resource "google_cloud_run_v2_service" "relay" {
  count               = var.relay ? 1 : 0
  name                = "${var.name}-relay"
  location            = var.region
  ingress             = "INGRESS_TRAFFIC_ALL"
  deletion_protection = false
  labels              = var.labels
  # Agents of any cloud connect to the relay. It checks their tokens and the tokens of clients.
  invoker_iam_disabled = true

  # A rollback pins traffic to a revision. This block removes the pin, as for the other services.
  traffic {
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
    percent = 100
  }

  template {
    service_account                  = google_service_account.relay[0].email
    timeout                          = "3600s"
    max_instance_request_concurrency = 1000
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    labels                           = var.labels

    scaling {
      min_instance_count = 0
      max_instance_count = 1
    }

    vpc_access {
      egress = "PRIVATE_RANGES_ONLY"

      network_interfaces {
        network    = var.network_id
        subnetwork = var.subnetwork_id
      }
    }

    containers {
      image = var.image

      resources {
        limits            = { cpu = "1", memory = var.memory }
        cpu_idle          = true
        startup_cpu_boost = true
      }

      ports {
        container_port = 8080
      }

      # The relay accepts connections after it reached the database, and after the database is up to date.
      startup_probe {
        period_seconds    = 5
        timeout_seconds   = 5
        failure_threshold = 48

        tcp_socket {
          port = 8080
        }
      }

      dynamic "env" {
        for_each = merge(var.environment, { DET_ROLE = "relay", DET_PUBLIC_URL = local.urls.api, DET_DB_POOL_SIZE = "4" })

        content {
          name  = env.key
          value = env.value
        }
      }

      # The relay gets neither the key of the secrets in the database nor the first password.
      env {
        name = "DET_DB_URL"

        value_source {
          secret_key_ref {
            secret  = var.secrets[var.secret_environment["DET_DB_URL"]].secret
            version = var.secrets[var.secret_environment["DET_DB_URL"]].version
          }
        }
      }

      dynamic "volume_mounts" {
        for_each = var.secret_files

        content {
          name       = volume_mounts.key
          mount_path = "/secrets/${volume_mounts.key}"
        }
      }
    }

    dynamic "volumes" {
      for_each = var.secret_files

      content {
        name = volumes.key

        secret {
          secret = var.secrets[volumes.key].secret

          items {
            path    = volumes.value
            version = var.secrets[volumes.key].version
          }
        }
      }
    }
  }
}
