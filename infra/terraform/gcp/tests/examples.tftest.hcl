# What a cluster on AWS needs in a project of Google Cloud.

mock_provider "google" {}

variables {
  project        = "some-project"
  aws_account_id = "123456789012"
  cluster_id     = "lab"
  bucket         = "machines"
}

run "machines_for_aws" {
  module {
    source = "../examples/gcp-for-aws"
  }

  assert {
    condition     = can(regex("^det-lab-[0-9a-f]{6}$", google_iam_workload_identity_pool.aws.workload_identity_pool_id))
    error_message = "What is made again within 30 days cannot have its pool of identities."
  }

  assert {
    condition     = google_iam_workload_identity_pool_provider.aws.attribute_mapping["google.subject"] == "assertion.arn.extract('assumed-role/{session}')"
    error_message = "A subject may have 127 bytes; the function's whole ARN may have more."
  }

  assert {
    condition     = module.network.peering == ""
    error_message = "A network without a database is peered with Cloud SQL, whose API it does not have."
  }
}

run "a_bucket_for_aws" {
  module {
    source = "../examples/gcp-bucket-for-aws"
  }

  assert {
    condition     = can(regex("^det-lab-[0-9a-f]{6}$", google_iam_workload_identity_pool.aws.workload_identity_pool_id))
    error_message = "What is made again within 30 days cannot have its pool of identities."
  }

  assert {
    condition     = google_iam_workload_identity_pool_provider.aws.attribute_mapping["google.subject"] == "assertion.arn.extract('assumed-role/{session}')"
    error_message = "A subject may have 127 bytes; a machine's whole ARN may have more."
  }
}

run "tasks_on_aws_do_not_write_what_images_are_made_from" {
  module {
    source = "../examples/gcp-bucket-for-aws"
  }

  assert {
    condition     = google_storage_bucket_iam_member.this.condition[0].expression == "!resource.name.startsWith(\"projects/_/buckets/machines/objects/builds/\")"
    error_message = "A task could exchange the program of a control plane whose bucket this is."
  }
}

run "a_name_of_aws_that_makes_no_accounts_is_refused" {
  command = plan

  module {
    source = "../examples/gcp-for-aws"
  }

  variables {
    cluster_id = "ModelsOfTheWholeDepartment"
  }

  expect_failures = [var.name]
}

run "a_name_of_aws_that_makes_no_accounts_for_a_bucket_is_refused" {
  command = plan

  module {
    source = "../examples/gcp-bucket-for-aws"
  }

  variables {
    cluster_id = "Lab"
  }

  expect_failures = [var.name]
}

run "another_name_stands_for_it" {
  module {
    source = "../examples/gcp-for-aws"
  }

  variables {
    cluster_id = "ModelsOfTheWholeDepartment"
    name       = "models-of-department"
  }

  assert {
    condition     = google_service_account.provision.account_id == "det-models-of-department-prov" && length(google_iam_workload_identity_pool.aws.display_name) <= 32 && length(google_iam_workload_identity_pool.aws.workload_identity_pool_id) <= 32
    error_message = "Google Cloud takes at most 30 characters for an account, and 32 for a pool of identities and its name."
  }

  assert {
    condition     = google_iam_workload_identity_pool_provider.aws.attribute_condition == "attribute.aws_role == \"det-ModelsOfTheWholeDepartment-provision\""
    error_message = "The project trusts another role of AWS than the cluster's."
  }
}
