# Cloud Monitoring mails about failing services, schedules without runs, missing instances, and a
# full or busy database. It also sets the retention of service logs.

variable "project" {
  description = "Id of the project."
  type        = string
}

variable "name" {
  description = "Prefix of the names of all resources, and of the services."
  type        = string
}

variable "emails" {
  description = "Email addresses to notify; empty for no alarms."
  type        = list(string)
}

variable "database" {
  description = "Name of the database's instance."
  type        = string
}

variable "region" {
  description = "Region of the separate log bucket."
  type        = string
}

variable "log_retention_days" {
  description = "Number of days to keep logs of services in a separate log bucket. 0 keeps them with the project's other logs."
  type        = number
}

variable "labels" {
  description = "Labels of the policies."
  type        = map(string)
}

locals {
  run     = "resource.type = \"cloud_run_revision\" AND metric.type = \"run.googleapis.com/request_count\""
  workers = "resource.labels.service_name = monitoring.regex.full_match(\"${var.name}-(tick|provision)\")"
  all     = "resource.labels.service_name = monitoring.regex.full_match(\"${var.name}-(api|tick|provision|relay)\")"
  api     = "resource.labels.service_name = \"${var.name}-api\""
  sql     = "resource.type = \"cloudsql_database\" AND resource.labels.database_id = \"${var.project}:${var.database}\" AND metric.type = \"cloudsql.googleapis.com/database"
  alarms = {
    errors    = { filter = "${local.run} AND ${local.all} AND metric.labels.response_code_class = \"5xx\"", aligner = "ALIGN_DELTA", above = 5, for_s = 0, says = "A service answers with errors" }
    schedules = { filter = "${local.run} AND ${local.workers} AND metric.labels.response_code_class = \"4xx\"", aligner = "ALIGN_DELTA", above = 0, for_s = 0, says = "A schedule, or the API, may not start a service" }
    throttles = { filter = "${local.run} AND ${local.api} AND metric.labels.response_code = \"429\"", aligner = "ALIGN_DELTA", above = 20, for_s = 0, says = "The API has more to do than its instances may do at once" }
    cpu       = { filter = "${local.sql}/cpu/utilization\"", aligner = "ALIGN_MEAN", above = 0.9, for_s = 900, says = "The database needs nearly all of its processor" }
    disk      = { filter = "${local.sql}/disk/utilization\"", aligner = "ALIGN_MEAN", above = 0.9, for_s = 900, says = "The disk of the database is nearly full" }
  }
}

resource "google_monitoring_notification_channel" "email" {
  for_each     = toset(var.emails)
  display_name = "${var.name}: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
  user_labels  = var.labels
}

resource "google_monitoring_alert_policy" "this" {
  for_each              = { for name, alarm in local.alarms : name => alarm if length(var.emails) > 0 }
  display_name          = "${var.name}-${each.key}"
  combiner              = "OR"
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  user_labels           = var.labels

  conditions {
    display_name = each.value.says

    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = "${each.value.for_s}s"

      aggregations {
        alignment_period   = "300s"
        per_series_aligner = each.value.aligner
      }
    }
  }
}

locals {
  keeps_apart = var.log_retention_days > 0
  ours        = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${var.name}-(api|tick|provision|relay)$\""
}

# Google Cloud keeps the name of a deleted bucket for a week. Each new bucket has another name.
resource "terraform_data" "suffix" {
  count = local.keeps_apart ? 1 : 0
  input = substr(uuid(), 0, 6)

  lifecycle {
    ignore_changes = [input]
  }
}

resource "google_logging_project_bucket_config" "this" {
  count          = local.keeps_apart ? 1 : 0
  project        = var.project
  location       = var.region
  bucket_id      = "${var.name}-${terraform_data.suffix[0].output}"
  retention_days = var.log_retention_days
  description    = "Logs of the services of ${var.name}"

  lifecycle {
    # The bucket of an earlier version has no suffix. A new name would replace it and delete its logs.
    ignore_changes = [bucket_id]
  }
}

resource "google_logging_project_sink" "this" {
  count                  = local.keeps_apart ? 1 : 0
  name                   = var.name
  destination            = "logging.googleapis.com/${google_logging_project_bucket_config.this[0].id}"
  filter                 = local.ours
  unique_writer_identity = true
}

# Without this exclusion, the project's default log bucket would store the same logs again.
resource "google_logging_project_exclusion" "this" {
  count       = local.keeps_apart ? 1 : 0
  name        = var.name
  description = "They are in a bucket of ${var.name}"
  filter      = local.ours

  depends_on = [google_logging_project_sink.this]
}

output "log_bucket" {
  description = "Full name of the separate log bucket; empty for none."
  value       = join("", [for bucket in google_logging_project_bucket_config.this : "projects/${bucket.project}/locations/${bucket.location}/buckets/${bucket.bucket_id}"])
}
