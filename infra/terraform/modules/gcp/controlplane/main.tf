# The services of the control plane, each with its own account. Only `provision` may start and
# terminate machines. The API upgrades the database when it starts. The services call each other;
# schedules are a fallback.

data "google_project" "this" {}

locals {
  services = {
    # Connections of notebooks and shells need the longest timeout that Cloud Run allows.
    api       = { timeout_s = 3600, requests = 250, instances = var.api_instances }
    tick      = { timeout_s = 180, requests = 80, instances = 1 }
    provision = { timeout_s = 300, requests = 80, instances = 1 }
  }
  workers = toset(["tick", "provision"])
  project = data.google_project.this.project_id
  # The services call each other at addresses that are known before the services exist.
  urls = { for name in concat(keys(local.services), ["relay"]) : name => "https://${var.name}-${name}-${data.google_project.this.number}.${var.region}.run.app" }
  jobs = { for name in local.workers : name => "projects/${local.project}/locations/${var.region}/jobs/${var.name}-${name}" }
  environment = merge(var.environment, {
    DET_PUBLIC_URL       = local.urls.api
    DET_TICK_URL         = local.urls.tick
    DET_PROVISION_URL    = local.urls.provision
    DET_SCHEDULES        = join(",", values(local.jobs))
    GOOGLE_CLOUD_PROJECT = local.project
  })
  # The API resumes the schedule of the tick on an idle cluster, because its own call to the tick may be lost.
  api_environment = merge(local.relay_url, { DET_SCHEDULES = local.jobs["tick"] })
  # This is longer than the network of an instance needs to start.
  worker_environment = { DET_DB_WAKE_S = "90" }
}

resource "google_cloud_run_v2_service" "this" {
  for_each            = local.services
  name                = "${var.name}-${each.key}"
  location            = var.region
  ingress             = "INGRESS_TRAFFIC_ALL"
  custom_audiences    = [local.urls[each.key]]
  deletion_protection = false
  labels              = var.labels
  # Agents, people and CI call the API, which authenticates each request itself. Only accounts with a role can call workers.
  invoker_iam_disabled = each.key == "api"

  # A rollback pins traffic to a revision, and Cloud Run would keep the pin in later deployments. This block removes it.
  traffic {
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
    percent = 100
  }

  template {
    service_account                  = google_service_account.this[each.key].email
    timeout                          = "${each.value.timeout_s}s"
    max_instance_request_concurrency = each.value.requests
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    labels                           = var.labels

    scaling {
      min_instance_count = 0
      max_instance_count = each.value.instances
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

      # The network of an instance can need a minute to start. The API accepts requests after it reached and updated the
      # database. The workers answer /ready after they reached the database, and get no requests before. 240 s is the maximum.
      startup_probe {
        period_seconds    = 5
        timeout_seconds   = 5
        failure_threshold = 48

        dynamic "tcp_socket" {
          for_each = each.key == "api" ? [1] : []

          content {
            port = 8080
          }
        }

        dynamic "http_get" {
          for_each = each.key == "api" ? [] : [1]

          content {
            path = "/ready"
            port = 8080
          }
        }
      }

      dynamic "env" {
        for_each = merge(local.environment, { DET_ROLE = each.key }, each.key == "api" ? local.api_environment : local.worker_environment)

        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = var.secret_environment

        content {
          name = env.key

          value_source {
            secret_key_ref {
              secret  = var.secrets[env.value].secret
              version = var.secrets[env.value].version
            }
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

  # A new API makes agents connect again. The new relay must exist before.
  depends_on = [module.renting, google_cloud_run_v2_service.relay]
}

resource "google_cloud_scheduler_job" "this" {
  for_each         = local.workers
  name             = "${var.name}-${each.key}"
  region           = var.region
  schedule         = "* * * * *"
  attempt_deadline = "${local.services[each.key].timeout_s}s"

  # The schedule calls again a minute later. Retries would only accumulate.
  retry_config {
    retry_count = 0
  }

  http_target {
    http_method = "POST"
    uri         = "${local.urls[each.key]}/"

    oidc_token {
      service_account_email = google_service_account.this["scheduler"].email
      audience              = local.urls[each.key]
    }
  }

  # The control plane pauses its jobs when the cluster is idle, and resumes them.
  lifecycle {
    ignore_changes = [paused]
  }

  depends_on = [google_cloud_run_v2_service.this, google_cloud_run_v2_service_iam_member.start]
}
