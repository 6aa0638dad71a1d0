# The examples that a cluster on AWS needs in a Google Cloud project.

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
    error_message = "A new identity pool has the id of a deleted one, which Google Cloud keeps for 30 days."
  }

  assert {
    condition     = google_iam_workload_identity_pool_provider.aws.attribute_mapping["google.subject"] == "assertion.arn.extract('assumed-role/{session}')"
    error_message = "The subject contains the function's whole ARN, which can have more than the allowed 127 bytes."
  }

  assert {
    condition     = module.network.peering == ""
    error_message = "A network without a database is peered with Cloud SQL, but the project may not have its API enabled."
  }
}

run "bucket_for_aws" {
  module {
    source = "../examples/gcp-bucket-for-aws"
  }

  assert {
    condition     = can(regex("^det-lab-[0-9a-f]{6}$", google_iam_workload_identity_pool.aws.workload_identity_pool_id))
    error_message = "A new identity pool has the id of a deleted one, which Google Cloud keeps for 30 days."
  }

  assert {
    condition     = google_iam_workload_identity_pool_provider.aws.attribute_mapping["google.subject"] == "assertion.arn.extract('assumed-role/{session}')"
    error_message = "The subject contains the machine's whole ARN, which can have more than the allowed 127 bytes."
  }
}

run "tasks_on_aws_cannot_write_sources_of_images" {
  module {
    source = "../examples/gcp-bucket-for-aws"
  }

  assert {
    condition     = google_storage_bucket_iam_member.this.condition[0].expression == "!resource.name.startsWith(\"projects/_/buckets/machines/objects/builds/\")"
    error_message = "A task could replace the program of the control plane to which the bucket belongs."
  }
}

run "rejects_name_that_google_refuses_for_machines" {
  command = plan

  module {
    source = "../examples/gcp-for-aws"
  }

  variables {
    cluster_id = "ModelsOfTheWholeDepartment"
  }

  expect_failures = [var.name]
}

run "rejects_name_that_google_refuses_for_bucket" {
  command = plan

  module {
    source = "../examples/gcp-bucket-for-aws"
  }

  variables {
    cluster_id = "Lab"
  }

  expect_failures = [var.name]
}

run "uses_name_instead_of_cluster_name" {
  module {
    source = "../examples/gcp-for-aws"
  }

  variables {
    cluster_id = "ModelsOfTheWholeDepartment"
    name       = "models-of-department"
  }

  assert {
    condition     = google_service_account.provision.account_id == "det-models-of-department-prov" && length(google_iam_workload_identity_pool.aws.display_name) <= 32 && length(google_iam_workload_identity_pool.aws.workload_identity_pool_id) <= 32
    error_message = "Google Cloud allows at most 30 characters for an account, and 32 for an identity pool and its name."
  }

  assert {
    condition     = google_iam_workload_identity_pool_provider.aws.attribute_condition == "attribute.aws_role == \"det-ModelsOfTheWholeDepartment-provision\""
    error_message = "The project trusts an AWS role that is not the cluster's."
  }
}
