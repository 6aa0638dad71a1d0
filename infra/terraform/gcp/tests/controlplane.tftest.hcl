# Rights and settings of the services. All run the same image, and only `provision` rents machines.

mock_provider "google" {
  mock_data "google_project" {
    defaults = {
      project_id = "some-project"
      number     = "123456"
    }
  }
}

variables {
  name                 = "det-lab"
  cluster_id           = "lab"
  region               = "europe-west4"
  image                = "image"
  memory               = "1Gi"
  api_instances        = 4
  relay                = true
  environment          = { DET_OBJECTS = "gs://bucket/contexts" }
  secret_environment   = { DET_DB_URL = "database-url" }
  secret_files         = { database-ca = "ca.pem" }
  secrets              = { database-url = { secret = "det-lab-database-url", version = "1" }, database-ca = { secret = "det-lab-database-ca", version = "1" } }
  network_id           = "network"
  subnetwork_id        = "subnetwork"
  bucket               = "bucket"
  machine_account_name = "projects/some-project/serviceAccounts/vm"
  labels               = {}
}

run "rights" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = alltrue([for permission in concat(tolist(google_project_iam_custom_role.schedules.permissions), tolist(google_project_iam_custom_role.sign.permissions)) : can(regex("^[a-z]+(\\.[a-zA-Z]+){2}$", permission))])
    error_message = "An entry of a custom role is not a single permission."
  }

  assert {
    condition     = module.renting.member == "serviceAccount:${google_service_account.this["provision"].email}"
    error_message = "An account other than provision's may rent machines."
  }

  assert {
    condition     = length(toset([for account in google_service_account.this : account.account_id])) == 4
    error_message = "Services share an account."
  }

  assert {
    condition     = alltrue([for name, service in google_cloud_run_v2_service.this : service.invoker_iam_disabled == (name == "api")])
    error_message = "Services other than the API accept anonymous callers."
  }

  assert {
    condition     = alltrue([for job in google_cloud_scheduler_job.this : startswith(job.http_target[0].uri, job.http_target[0].oidc_token[0].audience)])
    error_message = "A schedule's token has the wrong audience."
  }
}

run "renting" {
  module {
    source = "../modules/gcp/renting"
  }

  variables {
    project     = "some-project"
    role_prefix = "det_lab_0a1b2c"
    member      = "serviceAccount:det-lab-prov@some-project.iam.gserviceaccount.com"
  }

  assert {
    condition     = contains(google_project_iam_custom_role.launch.permissions, "compute.instances.create") && length(google_project_iam_member.launch.condition) == 0 && google_project_iam_member.launch.member == var.member
    error_message = "The right to create machines depends on their names. Google may refuse machines for which it chooses a zone."
  }

  assert {
    condition     = toset(google_project_iam_custom_role.machines.permissions) == toset(["compute.instances.delete", "compute.instances.get", "compute.instances.getSerialPortOutput"]) && strcontains(google_project_iam_member.machines.condition[0].expression, "startsWith(\"det-\")") && google_project_iam_member.machines.member == var.member
    error_message = "Provision may read and terminate machines that are not Determined's."
  }

  assert {
    condition     = length(setintersection(google_project_iam_custom_role.launch.permissions, google_project_iam_custom_role.machines.permissions)) == 0
    error_message = "A permission that is restricted to names is also granted without the restriction."
  }
}

run "environment" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = { for name, service in google_cloud_run_v2_service.this : name => one([for env in service.template[0].containers[0].env : env.value if env.name == "DET_ROLE"]) } == { api = "api", tick = "tick", provision = "provision" }
    error_message = "A service has the role of another service."
  }

  assert {
    condition     = alltrue([for service in google_cloud_run_v2_service.this : length([for env in service.template[0].containers[0].env : env if env.name == "DET_DB_URL" && length(env.value_source) == 1]) == 1])
    error_message = "The database's address, with its password, is not a secret."
  }
}

run "instances_wait_for_their_network" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = alltrue([for name in ["tick", "provision"] : google_cloud_run_v2_service.this[name].template[0].containers[0].startup_probe[0].http_get[0].path == "/ready"])
    error_message = "A worker gets a call before it can reach the database, and the call is lost."
  }

  assert {
    condition     = alltrue([for service in google_cloud_run_v2_service.this : service.template[0].containers[0].startup_probe[0].period_seconds * service.template[0].containers[0].startup_probe[0].failure_threshold == 240])
    error_message = "Cloud Run stops an instance before its network is up, or refuses the duration of the probe."
  }

  assert {
    condition     = alltrue([for name in ["tick", "provision"] : one([for env in google_cloud_run_v2_service.this[name].template[0].containers[0].env : env.value if env.name == "DET_DB_WAKE_S"]) == "90"])
    error_message = "A worker stops trying before its network is up."
  }
}

run "schedule_repeats_a_lost_wake" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = one([for env in google_cloud_run_v2_service.this["api"].template[0].containers[0].env : env.value if env.name == "DET_SCHEDULES"]) == "projects/some-project/locations/europe-west4/jobs/det-lab-tick"
    error_message = "The API does not know which schedule to resume."
  }

  assert {
    condition     = toset(google_project_iam_custom_role.resume.permissions) == toset(["cloudscheduler.jobs.get", "cloudscheduler.jobs.enable"]) && google_project_iam_member.resume.member == "serviceAccount:${google_service_account.this["api"].email}"
    error_message = "The API may not resume the schedule, or may pause it."
  }
}

run "deployment_after_rollback_serves_new_revision" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = alltrue([for service in concat(values(google_cloud_run_v2_service.this), google_cloud_run_v2_service.relay) : length(service.traffic) == 1 && service.traffic[0].type == "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST" && service.traffic[0].percent == 100])
    error_message = "A service still serves the revision to which a rollback pinned it."
  }
}

run "relay" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = one([for env in google_cloud_run_v2_service.this["api"].template[0].containers[0].env : env.value if env.name == "DET_RELAY_URL"]) == "https://det-lab-relay-123456.europe-west4.run.app"
    error_message = "The API does not know the relay's address."
  }

  assert {
    condition     = one(google_cloud_run_v2_service.relay[0].template[0].scaling).min_instance_count == 0 && one(google_cloud_run_v2_service.relay[0].template[0].scaling).max_instance_count == 1
    error_message = "An idle relay costs money, or agents would connect to different instances."
  }

  assert {
    condition     = { for env in google_cloud_run_v2_service.relay[0].template[0].containers[0].env : env.name => env.value if contains(["DET_ROLE", "DET_PUBLIC_URL"], env.name) } == { DET_ROLE = "relay", DET_PUBLIC_URL = "https://det-lab-api-123456.europe-west4.run.app" }
    error_message = "The relay has the wrong role, or an address that is not the cluster's."
  }

  assert {
    condition     = length([for env in google_cloud_run_v2_service.relay[0].template[0].containers[0].env : env if contains(["DET_SECRETS_KEY", "DET_INITIAL_USER_PASSWORD"], env.name)]) == 0
    error_message = "The relay has secrets that it does not need."
  }

  assert {
    condition     = alltrue([for given in google_storage_bucket_iam_member.objects : given.member != "serviceAccount:${google_service_account.relay[0].email}"]) && !contains([for given in google_cloud_run_v2_service_iam_member.start : given.member], "serviceAccount:${google_service_account.relay[0].email}")
    error_message = "The relay has rights beyond the database."
  }

  assert {
    condition     = google_cloud_run_v2_service.relay[0].template[0].timeout == "3600s" && google_cloud_run_v2_service.this["api"].template[0].timeout == "3600s"
    error_message = "Connections of notebooks and shells end too early."
  }
}

run "new_secret_keeps_version_of_serving_revision" {
  module {
    source = "../modules/gcp/secrets"
  }

  variables {
    values  = { configuration = "new" }
    readers = { api = { account = "api@some-project.iam.gserviceaccount.com", secrets = ["configuration"] } }
  }

  assert {
    condition     = google_secret_manager_secret_version.this["configuration"].deletion_policy == "ABANDON"
    error_message = "Instances that start before the new revision serves cannot read their secrets."
  }
}

run "regional_secrets" {
  module {
    source = "../modules/gcp/secrets"
  }

  variables {
    values   = { configuration = "new" }
    readers  = {}
    location = "europe-west4"
  }

  assert {
    condition     = google_secret_manager_secret.this["configuration"].replication[0].user_managed[0].replicas[0].location == "europe-west4" && length(google_secret_manager_secret.this["configuration"].replication[0].auto) == 0
    error_message = "Google chooses the secret's location, which an organisation may not allow."
  }
}

run "no_relay" {
  variables {
    relay = false
  }

  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = length(google_cloud_run_v2_service.relay) == 0 && length([for env in google_cloud_run_v2_service.this["api"].template[0].containers[0].env : env if env.name == "DET_RELAY_URL"]) == 0
    error_message = "There is a relay, or the API expects one."
  }

  assert {
    condition     = toset(keys(output.services)) == toset(["api", "tick", "provision"])
    error_message = "The set of services is unexpected."
  }
}
