# Planned without Google Cloud: `terraform test`.

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

run "a_cluster" {
  assert {
    condition     = output.url == "https://det-lab-api-123456.europe-west4.run.app"
    error_message = "The address is not the one that services know each other by: ${output.url}"
  }

  assert {
    condition     = output.bucket == "det-lab-some-project"
    error_message = "The bucket has another name: ${output.bucket}"
  }

  assert {
    condition     = toset(output.schedules) == toset(["det-lab-provision", "det-lab-tick"])
    error_message = "The schedules are others: ${join(", ", output.schedules)}"
  }
}

run "sessions_that_rest_end" {
  assert {
    condition     = local.environment["DET_DB_IDLE_S"] == "600"
    error_message = "Connections of processes that stopped would stay until the database has none left."
  }
}

run "the_relay_reads_what_it_needs" {
  assert {
    condition     = output.services["relay"] == "det-lab-relay"
    error_message = "The relay is not among the services that the command tells."
  }

  assert {
    condition     = contains(keys(module.controlplane.accounts), "relay")
    error_message = "The relay has no account of its own."
  }
}

run "the_configuration_is_a_secret" {
  variables {
    cluster_config = "checkpoint_storage: {type: s3, bucket: b, secret_key: SECRET}"
  }

  assert {
    condition     = contains(keys(module.secrets.versions), "configuration")
    error_message = "There is no secret with the configuration."
  }

  assert {
    condition     = local.environment["DET_CLUSTER_CONFIG"] == "/secrets/configuration/cluster.yaml"
    error_message = "Services read their configuration elsewhere: ${local.environment["DET_CLUSTER_CONFIG"]}"
  }

  assert {
    condition     = !strcontains(jsonencode(local.environment), "SECRET")
    error_message = "The configuration is in the environment, which everybody who may look at a service reads."
  }
}

run "the_keys_of_a_backup_are_taken" {
  variables {
    secrets_key = "of-this-one,of-the-backup"
  }

  assert {
    condition     = nonsensitive(local.secrets_key) == "of-this-one,of-the-backup"
    error_message = "Secrets in a restored database cannot be read."
  }
}

run "what_the_command_is_told" {
  assert {
    condition     = output.repository == "europe-west4-docker.pkg.dev/some-project/det-lab"
    error_message = "The registry is elsewhere."
  }

  assert {
    condition     = nonsensitive(output.initial_user_password) == "Password1"
    error_message = "The first password is not told to the command that shows it."
  }
}

run "a_network_of_one_s_own_is_used_and_none_is_made" {
  variables {
    network_id      = "projects/some-project/global/networks/company"
    subnetwork_id   = "projects/some-project/regions/europe-west4/subnetworks/training"
    network_peering = "peering"
  }

  assert {
    condition     = length(module.network) == 0 && output.machine_subnetwork == var.subnetwork_id
    error_message = "Machines are placed elsewhere: ${output.machine_subnetwork}"
  }
}

run "a_network_without_its_subnet_is_refused" {
  command = plan

  variables {
    network_id = "company"
  }

  expect_failures = [var.network_id]
}

run "a_role_of_aws_is_told_to_the_services" {
  variables {
    aws_role_arn = "arn:aws:iam::123456789012:role/det-lab-from-google"
  }

  assert {
    condition     = local.environment["DET_AWS_ROLE_ARN"] == var.aws_role_arn
    error_message = "Services do not know the role that AWS trusts them with."
  }

  assert {
    condition     = local.environment["DET_CLUSTER_ID"] == "lab"
    error_message = "Machines would not carry the cluster's name, by which they are found when it is removed."
  }
}

run "an_alarm_of_google_s_own_has_the_apis_that_it_takes" {
  variables {
    monthly_budget_usd = 100
    billing_account    = "012345-6789AB-CDEF01"
    budget_emails      = ["team@example.com"]
  }

  assert {
    condition     = length(setsubtract(["billingbudgets", "monitoring"], keys(google_project_service.this))) == 0
    error_message = "The API of budgets, or that of their mails, is not enabled."
  }
}

run "logs_apart" {
  variables {
    log_retention_days = 90
  }

  assert {
    condition     = startswith(module.alarms.log_bucket, "projects/some-project/")
    error_message = "Logs are not kept apart."
  }
}

run "a_budget_that_is_added_leaves_logs_where_they_are" {
  command = plan

  variables {
    log_retention_days = 90
    monthly_budget_usd = 100
    billing_account    = "012345-6789AB-CDEF01"
  }

  # Cannot be judged where the plan does not know the project, which would replace the bucket.
  assert {
    condition     = startswith(module.alarms.log_bucket, "projects/some-project/")
    error_message = "The bucket of logs is made anew, without them."
  }
}

run "without_alarms_their_apis_stay_as_they_are" {
  assert {
    condition     = length(setintersection(["billingbudgets", "monitoring"], keys(google_project_service.this))) == 0
    error_message = "An API is enabled that nothing uses."
  }
}

run "an_alarm_without_a_billing_account_is_refused" {
  command = plan

  variables {
    monthly_budget_usd = 100
  }

  expect_failures = [var.billing_account]
}

run "a_name_that_makes_no_accounts_is_refused" {
  command = plan

  variables {
    cluster_id = "Lab_1"
  }

  expect_failures = [var.cluster_id]
}

run "a_cluster_of_such_a_name_can_be_removed" {
  command = plan

  variables {
    cluster_id = "Lab_1"
    removal    = "20261124120000"
  }
}

run "more_services_than_the_database_has_connections_for_are_refused" {
  command = plan

  variables {
    api_instances = 20
  }

  expect_failures = [var.database_max_connections]
}
