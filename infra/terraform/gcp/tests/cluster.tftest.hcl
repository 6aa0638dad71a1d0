# Plans of a cluster, which need no Google Cloud project: `terraform test`.

mock_provider "google" {
  mock_resource "google_sql_database_instance" {
    defaults = {
      private_ip_address = "10.1.2.3"
      server_ca_cert     = [{ cert = "CERTIFICATE" }]
    }
  }

  mock_data "google_project" {
    defaults = {
      project_id = "some-project"
      number     = "123456"
    }
  }
}

variables {
  cluster_id            = "lab"
  project               = "some-project"
  region                = "europe-west4"
  image                 = "europe-docker.pkg.dev/some-project/det/controlplane@sha256:0"
  initial_user_password = "Password1"
}

run "cluster" {
  assert {
    condition     = output.url == "https://det-lab-api-123456.europe-west4.run.app"
    error_message = "The address differs from the address that the services use: ${output.url}"
  }

  assert {
    condition     = output.bucket == "det-lab-some-project"
    error_message = "The bucket has an unexpected name: ${output.bucket}"
  }

  assert {
    condition     = toset(output.schedules) == toset(["det-lab-provision", "det-lab-tick"])
    error_message = "The set of schedules is unexpected: ${join(", ", output.schedules)}"
  }
}

run "idle_database_sessions_end" {
  assert {
    condition     = local.environment["DET_DB_IDLE_S"] == "600"
    error_message = "Stopped processes would keep their connections until the database has no free connection."
  }
}

run "relay_has_its_own_account" {
  assert {
    condition     = output.services["relay"] == "det-lab-relay"
    error_message = "The output `services` does not contain the relay."
  }

  assert {
    condition     = contains(keys(module.controlplane.accounts), "relay")
    error_message = "The relay does not have its own account."
  }
}

run "configuration_is_a_secret" {
  variables {
    cluster_config = "checkpoint_storage: {type: s3, bucket: b, secret_key: SECRET}"
  }

  assert {
    condition     = contains(keys(module.secrets.versions), "configuration")
    error_message = "No secret contains the configuration."
  }

  assert {
    condition     = local.environment["DET_CLUSTER_CONFIG"] == "/secrets/configuration/cluster.yaml"
    error_message = "Services read their configuration from another place: ${local.environment["DET_CLUSTER_CONFIG"]}"
  }

  assert {
    condition     = !strcontains(jsonencode(local.environment), "SECRET")
    error_message = "The configuration is in the environment, which every viewer of the service can read."
  }
}

run "uses_secrets_keys_of_a_backup" {
  variables {
    secrets_key = "of-this-one,of-the-backup"
  }

  assert {
    condition     = nonsensitive(local.secrets_key) == "of-this-one,of-the-backup"
    error_message = "Secrets in a restored database cannot be decrypted."
  }
}

run "outputs_for_the_command" {
  assert {
    condition     = output.repository == "europe-west4-docker.pkg.dev/some-project/det-lab"
    error_message = "The registry has an unexpected address."
  }

  assert {
    condition     = nonsensitive(output.initial_user_password) == "Password1"
    error_message = "The command cannot show the first password."
  }
}

run "uses_existing_network_and_creates_none" {
  variables {
    network_id      = "projects/some-project/global/networks/company"
    subnetwork_id   = "projects/some-project/regions/europe-west4/subnetworks/training"
    network_peering = "peering"
  }

  assert {
    condition     = length(module.network) == 0 && output.machine_subnetwork == var.subnetwork_id
    error_message = "Machines are in an unexpected subnet: ${output.machine_subnetwork}"
  }
}

run "rejects_network_without_its_subnet" {
  command = plan

  variables {
    network_id = "company"
  }

  expect_failures = [var.network_id]
}

run "services_get_aws_role" {
  variables {
    aws_role_arn = "arn:aws:iam::123456789012:role/det-lab-from-google"
  }

  assert {
    condition     = local.environment["DET_AWS_ROLE_ARN"] == var.aws_role_arn
    error_message = "Services do not know the role that AWS lets them assume."
  }

  assert {
    condition     = local.environment["DET_CLUSTER_ID"] == "lab"
    error_message = "Machines would not carry the cluster's name, and the removal of the cluster would not find them."
  }
}

run "budget_enables_its_apis" {
  variables {
    monthly_budget_usd = 100
    billing_account    = "012345-6789AB-CDEF01"
    budget_emails      = ["team@example.com"]
  }

  assert {
    condition     = length(setsubtract(["billingbudgets", "monitoring"], keys(google_project_service.this))) == 0
    error_message = "The API of budgets or the API of their mails is not enabled."
  }
}

run "separate_log_bucket" {
  variables {
    log_retention_days = 90
  }

  assert {
    condition     = startswith(module.alarms.log_bucket, "projects/some-project/")
    error_message = "Logs are not in a separate bucket."
  }
}

run "budget_does_not_replace_log_bucket" {
  command = plan

  variables {
    log_retention_days = 90
    monthly_budget_usd = 100
    billing_account    = "012345-6789AB-CDEF01"
  }

  # Terraform could not evaluate this condition if the plan did not know the project. The bucket would be replaced then.
  assert {
    condition     = startswith(module.alarms.log_bucket, "projects/some-project/")
    error_message = "The bucket of logs would be replaced, without its logs."
  }
}

run "apis_of_alarms_are_enabled_only_for_alarms" {
  assert {
    condition     = length(setintersection(["billingbudgets", "monitoring"], keys(google_project_service.this))) == 0
    error_message = "The stack enables an API that it does not use."
  }
}

run "rejects_budget_without_billing_account" {
  command = plan

  variables {
    monthly_budget_usd = 100
  }

  expect_failures = [var.billing_account]
}

run "rejects_name_that_google_refuses" {
  command = plan

  variables {
    cluster_id = "Lab_1"
  }

  expect_failures = [var.cluster_id]
}

run "accepts_refused_name_for_removal" {
  command = plan

  variables {
    cluster_id = "Lab_1"
    removal    = "20261124120000"
  }
}

run "rejects_more_services_than_database_connections" {
  command = plan

  variables {
    api_instances = 20
  }

  expect_failures = [var.database_max_connections]
}
