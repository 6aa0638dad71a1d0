# Who may do what: three services, and one of them rents machines.

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
    condition     = alltrue([for permission in concat(tolist(google_project_iam_custom_role.provision.permissions), tolist(google_project_iam_custom_role.schedules.permissions), tolist(google_project_iam_custom_role.sign.permissions)) : can(regex("^[a-z]+(\\.[a-zA-Z]+){2}$", permission))])
    error_message = "A custom role has something that is not one permission."
  }

  assert {
    condition     = google_project_iam_member.provision.member == "serviceAccount:${google_service_account.this["provision"].email}"
    error_message = "Another account than that of provision may rent machines."
  }

  assert {
    condition     = length(toset([for account in google_service_account.this : account.account_id])) == 4
    error_message = "Services share an account."
  }

  assert {
    condition     = alltrue([for name, service in google_cloud_run_v2_service.this : service.invoker_iam_disabled == (name == "api")])
    error_message = "Services but the API must only answer accounts that may call them."
  }

  assert {
    condition     = alltrue([for job in google_cloud_scheduler_job.this : startswith(job.http_target[0].uri, job.http_target[0].oidc_token[0].audience)])
    error_message = "A schedule's token is for another service."
  }
}

run "environment" {
  module {
    source = "../modules/gcp/controlplane"
  }

  assert {
    condition     = { for name, service in google_cloud_run_v2_service.this : name => one([for env in service.template[0].containers[0].env : env.value if env.name == "DET_ROLE"]) } == { api = "api", tick = "tick", provision = "provision" }
    error_message = "A service plays the role of another."
  }

  assert {
    condition     = alltrue([for service in google_cloud_run_v2_service.this : length([for env in service.template[0].containers[0].env : env if env.name == "DET_DB_URL" && length(env.value_source) == 1]) == 1])
    error_message = "The database's address with its password is in plain sight."
  }
}
