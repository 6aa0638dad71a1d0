# What is found by its label when a cluster is removed, and what nobody outside may reach.

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
  project    = "some-project"
  name       = "det-lab"
  region     = "europe-west4"
  bucket     = "det-lab-some-project"
  location   = "europe-west4"
  labels     = { determined-cluster = "lab" }
  cluster_id = "lab"
}

run "images" {
  module {
    source = "../modules/gcp/images"
  }

  assert {
    condition     = google_artifact_registry_repository.this.labels["determined-cluster"] == "lab"
    error_message = "The registry does not carry the cluster's label."
  }

  assert {
    condition     = length(google_storage_bucket_iam_member.builder.condition) == 1 && strcontains(google_storage_bucket_iam_member.builder.condition[0].expression, "/objects/builds/")
    error_message = "The builder of images may read checkpoints."
  }

  assert {
    condition     = output.repository == "europe-west4-docker.pkg.dev/some-project/det-lab"
    error_message = "The repository is not where `det deploy gcp` pushes to: ${output.repository}"
  }

  assert {
    condition     = google_service_account.builder.account_id == "det-lab-build"
    error_message = "`det deploy gcp` builds as an account of another name."
  }
}

run "tasks_do_not_write_what_images_are_made_from" {
  module {
    source = "../modules/gcp/machines"
  }

  variables {
    account_id = "det-lab-vm"
    network_id = "network"
  }

  assert {
    condition     = google_storage_bucket_iam_member.this.condition[0].expression == "!resource.name.startsWith(\"projects/_/buckets/det-lab-some-project/objects/builds/\")"
    error_message = "A task could exchange the program of the control plane before it is built."
  }
}

run "a_network_of_a_name_that_was_used_before" {
  module {
    source = "../modules/gcp/network"
  }

  variables {
    cidr     = "10.60.0.0/20"
    nat      = false
    database = true
  }

  assert {
    condition     = google_service_networking_connection.this[0].update_on_creation_fail
    error_message = "A cluster that is made again has other addresses than those that Google kept, and would be refused."
  }
}

run "cloud_nat_leads_machines_out_and_nothing_else" {
  module {
    source = "../modules/gcp/network"
  }

  variables {
    cidr     = "10.60.0.0/20"
    nat      = true
    database = true
  }

  assert {
    condition     = google_compute_router_nat.this[0].source_subnetwork_ip_ranges_to_nat == "LIST_OF_SUBNETWORKS" && [for subnet in google_compute_router_nat.this[0].subnetwork : subnet.name] == [google_compute_subnetwork.machines[0].id]
    error_message = "Cloud NAT costs money for each instance of a service, too."
  }

  assert {
    condition     = output.machine_subnetwork_id == google_compute_subnetwork.machines[0].id && output.subnetwork_id == google_compute_subnetwork.this.id
    error_message = "Machines are in a subnet without a way out."
  }
}

run "machines_with_addresses_share_the_subnet" {
  module {
    source = "../modules/gcp/network"
  }

  variables {
    cidr     = "10.60.0.0/20"
    nat      = false
    database = true
  }

  assert {
    condition     = output.machine_subnetwork_id == output.subnetwork_id && length(google_compute_subnetwork.machines) == 0
    error_message = "There is a subnet that nothing uses."
  }
}

run "storage" {
  module {
    source = "../modules/gcp/storage"
  }

  variables {
    keep            = true
    lifecycle_rules = true
  }

  assert {
    condition     = google_storage_bucket.this.public_access_prevention == "enforced" && google_storage_bucket.this.uniform_bucket_level_access
    error_message = "The bucket may be opened to the public."
  }

  assert {
    condition     = !google_storage_bucket.this.force_destroy
    error_message = "A bucket that is to be kept may be emptied."
  }

  assert {
    condition     = google_storage_bucket.this.labels["determined-cluster"] == "lab"
    error_message = "The bucket does not carry the cluster's label."
  }
}

run "a_database_that_is_kept" {
  module {
    source = "../modules/gcp/database"
  }

  variables {
    tier             = "db-f1-micro"
    disk_gb          = 25
    highly_available = false
    network_id       = "network"
    peering          = "peering"
    max_connections  = 60
    keep             = true
    removal          = ""
  }

  assert {
    condition     = google_sql_database_instance.this.deletion_protection && google_sql_database_instance.this.settings[0].deletion_protection_enabled
    error_message = "The database is not protected."
  }

  assert {
    condition     = !google_sql_database_instance.this.settings[0].ip_configuration[0].ipv4_enabled
    error_message = "The database has a public address."
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].user_labels["determined-cluster"] == "lab"
    error_message = "The database does not carry the cluster's label."
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].database_flags[*].name == tolist(["max_connections"])
    error_message = "Cloud SQL refuses an instance with a flag that it does not have."
  }

  assert {
    condition     = startswith(google_sql_database_instance.this.name, "det-lab-") && length(google_sql_database_instance.this.name) == 14
    error_message = "A cluster that is made again within a week cannot have its database: ${google_sql_database_instance.this.name}"
  }
}

run "a_disk_that_is_larger_than_asked_stays" {
  module {
    source = "../modules/gcp/database"
  }

  variables {
    tier             = "db-f1-micro"
    disk_gb          = 10
    highly_available = false
    network_id       = "network"
    peering          = "peering"
    max_connections  = 60
    keep             = true
    removal          = ""
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].disk_size == 25
    error_message = "A database that has grown would be made anew: ${google_sql_database_instance.this.settings[0].disk_size} GB"
  }
}

run "a_database_that_is_removed" {
  module {
    source = "../modules/gcp/database"
  }

  variables {
    tier             = "db-f1-micro"
    disk_gb          = 25
    highly_available = false
    network_id       = "network"
    peering          = "peering"
    max_connections  = 60
    keep             = true
    removal          = "20261122160000"
  }

  assert {
    condition     = !google_sql_database_instance.this.deletion_protection && !google_sql_database_instance.this.settings[0].deletion_protection_enabled
    error_message = "The database that is removed is protected."
  }

  assert {
    condition     = google_sql_database.this.deletion_policy == "ABANDON" && google_sql_user.this.deletion_policy == "ABANDON"
    error_message = "The removal drops a database that somebody is connected to, which PostgreSQL refuses."
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].final_backup_config[0].enabled
    error_message = "No last backup of the database is kept."
  }
}

run "budget" {
  module {
    source = "../modules/gcp/budget"
  }

  variables {
    billing_account = "012345-6789AB-CDEF01"
    limit_usd       = 100
    emails          = ["team@example.com"]
  }

  assert {
    condition     = google_billing_budget.this.budget_filter[0].projects == tolist(["projects/123456"])
    error_message = "The budget is another project's."
  }

  assert {
    condition     = google_billing_budget.this.amount[0].specified_amount[0].currency_code != "USD"
    error_message = "A billing account of another currency refuses the budget."
  }

  assert {
    condition     = length(google_billing_budget.this.all_updates_rule) == 1
    error_message = "Nobody is told."
  }
}

run "no_alarms" {
  module {
    source = "../modules/gcp/alarms"
  }

  variables {
    emails             = []
    database           = "det-lab-123456"
    log_retention_days = 0
  }

  assert {
    condition     = length(google_monitoring_alert_policy.this) == 0 && length(google_logging_project_sink.this) == 0
    error_message = "There are alarms that nobody asked for, or logs are moved."
  }
}

run "alarms" {
  module {
    source = "../modules/gcp/alarms"
  }

  variables {
    emails             = ["team@example.com"]
    database           = "det-lab-123456"
    log_retention_days = 90
  }

  assert {
    condition     = toset(keys(google_monitoring_alert_policy.this)) == toset(["errors", "schedules", "throttles", "cpu", "disk"]) && alltrue([for policy in google_monitoring_alert_policy.this : length(policy.notification_channels) == 1])
    error_message = "Something fails and nobody is told."
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["disk"].conditions[0].condition_threshold[0].filter, "database_id = \"some-project:det-lab-123456\"")
    error_message = "The alarm looks at another database."
  }

  assert {
    condition     = google_logging_project_bucket_config.this[0].retention_days == 90 && google_logging_project_sink.this[0].filter == google_logging_project_exclusion.this[0].filter
    error_message = "Logs are kept for another time, or twice."
  }

  assert {
    condition     = can(regex("^det-lab-[0-9a-f]{6}$", google_logging_project_bucket_config.this[0].bucket_id))
    error_message = "A cluster that is made again within a week cannot have its logs apart: ${google_logging_project_bucket_config.this[0].bucket_id}"
  }
}

run "logs_stay_in_the_bucket_that_they_are_in" {
  module {
    source = "../modules/gcp/alarms"
  }

  variables {
    name               = "det-of-another-version"
    emails             = ["team@example.com"]
    database           = "det-lab-123456"
    log_retention_days = 30
  }

  assert {
    condition     = output.log_bucket == run.alarms.log_bucket && google_logging_project_bucket_config.this[0].retention_days == 30
    error_message = "A bucket with another name would be made anew, without its logs: ${google_logging_project_bucket_config.this[0].bucket_id}"
  }
}

run "logs_are_kept_with_the_project_s_others" {
  module {
    source = "../modules/gcp/alarms"
  }

  variables {
    emails             = []
    database           = "det-lab-123456"
    log_retention_days = 0
  }

  assert {
    condition     = output.log_bucket == ""
    error_message = "Logs are kept apart that should not be."
  }
}

run "logs_that_are_kept_apart_again_have_a_new_bucket" {
  module {
    source = "../modules/gcp/alarms"
  }

  variables {
    emails             = []
    database           = "det-lab-123456"
    log_retention_days = 30
  }

  assert {
    condition     = output.log_bucket != run.alarms.log_bucket
    error_message = "The bucket has the name of one that was deleted, which Google keeps for a week."
  }
}
