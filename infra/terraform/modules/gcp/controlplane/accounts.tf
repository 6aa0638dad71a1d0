# One account for each service, with only the rights that it needs. Custom roles list single permissions.

locals {
  accounts = {
    api       = "api"
    tick      = "tick"
    provision = "prov"
    scheduler = "sched"
  }
  role_prefix = "${replace(var.name, "-", "_")}_${terraform_data.suffix.output}"
  # The pairs of an account and a worker that it may start.
  starts = merge([for worker in local.workers : {
    for account in ["api", "tick", "provision", "scheduler"] : "${account}/${worker}" => { account = account, worker = worker }
  }]...)
}

# Google Cloud keeps the id of a deleted custom role for weeks. New roles have other ids.
resource "terraform_data" "suffix" {
  input = substr(uuid(), 0, 6)

  lifecycle {
    ignore_changes = [input]
  }
}

resource "google_service_account" "this" {
  for_each     = local.accounts
  account_id   = "${var.name}-${each.value}"
  display_name = "Determined ${var.cluster_id}: ${each.key}"
}

resource "google_cloud_run_v2_service_iam_member" "start" {
  for_each = local.starts
  name     = google_cloud_run_v2_service.this[each.value.worker].name
  location = var.region
  role     = "roles/run.invoker"
  member   = "serviceAccount:${google_service_account.this[each.value.account].email}"
}

resource "google_storage_bucket_iam_member" "objects" {
  for_each = toset(["api", "tick"])
  bucket   = var.bucket
  role     = "roles/storage.objectUser"
  member   = "serviceAccount:${google_service_account.this[each.key].email}"
}

# Clients upload to the bucket with URLs that the API signs with its own account.
resource "google_project_iam_custom_role" "sign" {
  role_id     = "${local.role_prefix}_sign"
  title       = "Determined ${var.cluster_id}: sign URLs"
  permissions = ["iam.serviceAccounts.signBlob"]
}

resource "google_service_account_iam_member" "sign" {
  for_each           = toset(["api", "tick"])
  service_account_id = google_service_account.this[each.key].name
  role               = google_project_iam_custom_role.sign.id
  member             = "serviceAccount:${google_service_account.this[each.key].email}"
}

resource "google_project_iam_custom_role" "schedules" {
  role_id     = "${local.role_prefix}_schedules"
  title       = "Determined ${var.cluster_id}: pause and resume schedules"
  permissions = ["cloudscheduler.jobs.get", "cloudscheduler.jobs.pause", "cloudscheduler.jobs.enable"]
}

resource "google_project_iam_member" "schedules" {
  project = local.project
  role    = google_project_iam_custom_role.schedules.id
  member  = "serviceAccount:${google_service_account.this["tick"].email}"
}

# The API resumes an idle cluster's schedule when it stores work. It has no right to pause schedules.
resource "google_project_iam_custom_role" "resume" {
  role_id     = "${local.role_prefix}_resume"
  title       = "Determined ${var.cluster_id}: resume schedules"
  permissions = ["cloudscheduler.jobs.get", "cloudscheduler.jobs.enable"]
}

resource "google_project_iam_member" "resume" {
  project = local.project
  role    = google_project_iam_custom_role.resume.id
  member  = "serviceAccount:${google_service_account.this["api"].email}"
}

module "renting" {
  source      = "../renting"
  project     = local.project
  role_prefix = local.role_prefix
  cluster_id  = var.cluster_id
  member      = "serviceAccount:${google_service_account.this["provision"].email}"
}

moved {
  from = google_project_iam_custom_role.provision
  to   = module.renting.google_project_iam_custom_role.machines
}

moved {
  from = google_project_iam_member.provision
  to   = module.renting.google_project_iam_member.machines
}

# The machines' account is the only account that may be attached to a machine.
resource "google_service_account_iam_member" "machines" {
  service_account_id = var.machine_account_name
  role               = "roles/iam.serviceAccountUser"
  member             = "serviceAccount:${google_service_account.this["provision"].email}"
}
