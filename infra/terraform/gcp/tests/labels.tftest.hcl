# Labels, by which a removal finds the resources of a cluster, and access from outside.

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
    error_message = "The registry does not have the cluster's label."
  }

  assert {
    condition     = length(google_storage_bucket_iam_member.builder.condition) == 1 && strcontains(google_storage_bucket_iam_member.builder.condition[0].expression, "/objects/builds/")
    error_message = "The builder of images can read checkpoints."
  }

  assert {
    condition     = output.repository == "europe-west4-docker.pkg.dev/some-project/det-lab"
    error_message = "The repository is not the one to which `det deploy gcp` pushes: ${output.repository}"
  }

  assert {
    condition     = google_service_account.builder.account_id == "det-lab-build"
    error_message = "`det deploy gcp` builds with an account of another name."
  }
}

run "tasks_cannot_write_sources_of_images" {
  module {
    source = "../modules/gcp/machines"
  }

  variables {
    account_id = "det-lab-vm"
    network_id = "network"
  }

  assert {
    condition     = google_storage_bucket_iam_member.this.condition[0].expression == "!resource.name.startsWith(\"projects/_/buckets/det-lab-some-project/objects/builds/\")"
    error_message = "A task could replace the program of the control plane before it is built."
  }
}

run "network_with_name_of_a_deleted_network" {
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
    error_message = "Google would refuse the new network's peering, because its addresses differ from those of the deleted one."
  }
}

run "cloud_nat_serves_only_machines" {
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
    error_message = "Cloud NAT also costs money for each instance of a service."
  }

  assert {
    condition     = output.machine_subnetwork_id == google_compute_subnetwork.machines[0].id && output.subnetwork_id == google_compute_subnetwork.this.id
    error_message = "Machines are in a subnet without NAT."
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
    error_message = "The network has a subnet without a use."
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
    error_message = "Terraform may delete a bucket with content although `keep` is set."
  }

  assert {
    condition     = google_storage_bucket.this.labels["determined-cluster"] == "lab"
    error_message = "The bucket does not have the cluster's label."
  }
}

run "database_with_protection" {
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
    error_message = "The database does not have the cluster's label."
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].database_flags[*].name == tolist(["max_connections"])
    error_message = "Cloud SQL does not support one of the instance's flags, and refuses the instance."
  }

  assert {
    condition     = startswith(google_sql_database_instance.this.name, "det-lab-") && length(google_sql_database_instance.this.name) == 14
    error_message = "A new database has the name of a deleted one, which Cloud SQL keeps for a week: ${google_sql_database_instance.this.name}"
  }
}

run "grown_disk_does_not_replace_database" {
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
    error_message = "A database with a grown disk would be replaced: ${google_sql_database_instance.this.settings[0].disk_size} GB"
  }
}

run "database_of_removed_cluster" {
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
    error_message = "A database that is being removed is protected."
  }

  assert {
    condition     = google_sql_database.this.deletion_policy == "ABANDON" && google_sql_user.this.deletion_policy == "ABANDON"
    error_message = "The removal drops a database that has connected clients, which PostgreSQL refuses."
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].final_backup_config[0].enabled
    error_message = "The removal keeps no last backup of the database."
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
    error_message = "The budget does not belong to the project."
  }

  assert {
    condition     = google_billing_budget.this.amount[0].specified_amount[0].currency_code != "USD"
    error_message = "The budget has a fixed currency. A billing account with another currency refuses it."
  }

  assert {
    condition     = length(google_billing_budget.this.all_updates_rule) == 1
    error_message = "The budget does not notify the given addresses."
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
    error_message = "There are alarms or a separate log bucket although neither is set."
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
    error_message = "A failure has no alarm, or an alarm notifies no address."
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["disk"].conditions[0].condition_threshold[0].filter, "database_id = \"some-project:det-lab-123456\"")
    error_message = "The alarm watches another database."
  }

  assert {
    condition     = google_logging_project_bucket_config.this[0].retention_days == 90 && google_logging_project_sink.this[0].filter == google_logging_project_exclusion.this[0].filter
    error_message = "Logs have the wrong retention time, or are stored twice."
  }

  assert {
    condition     = can(regex("^det-lab-[0-9a-f]{6}$", google_logging_project_bucket_config.this[0].bucket_id))
    error_message = "A new log bucket has the name of a deleted one, which Google keeps for a week: ${google_logging_project_bucket_config.this[0].bucket_id}"
  }
}

run "logs_stay_in_their_bucket" {
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
    error_message = "The log bucket would be replaced, without its logs: ${google_logging_project_bucket_config.this[0].bucket_id}"
  }
}

run "no_separate_log_bucket_by_default" {
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
    error_message = "Logs are in a separate bucket although no retention time is set."
  }
}

run "second_log_bucket_has_new_name" {
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
    error_message = "The bucket has the name of a deleted one, which Google keeps for a week."
  }
}
