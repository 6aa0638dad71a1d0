# Planned without AWS: `terraform test`.

mock_provider "aws" {
  mock_data "aws_availability_zones" {
    defaults = {
      names    = ["eu-west-1a", "eu-west-1b", "eu-west-1c", "eu-west-1d"]
      zone_ids = ["euw1-az3", "euw1-az1", "euw1-az2", "euw1-az4"]
    }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }

  mock_data "aws_region" {
    defaults = { name = "eu-west-1" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\": \"2012-10-17\", \"Statement\": []}" }
  }

  mock_resource "aws_vpc" {
    defaults = { ipv6_cidr_block = "2001:db8:1234::/56" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/det" }
  }

  mock_resource "aws_iam_instance_profile" {
    defaults = { arn = "arn:aws:iam::123456789012:instance-profile/det" }
  }

  mock_resource "aws_lambda_alias" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:det:live" }
  }

  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:det" }
  }

  mock_resource "aws_lambda_function_url" {
    defaults = { function_url = "https://abc.lambda-url.eu-west-1.on.aws/" }
  }

  mock_resource "aws_apigatewayv2_api" {
    defaults = {
      api_endpoint  = "https://abc.execute-api.eu-west-1.amazonaws.com"
      execution_arn = "arn:aws:execute-api:eu-west-1:123456789012:abc"
    }
  }

  mock_resource "aws_db_instance" {
    defaults = { port = 5433 }
  }

  mock_resource "aws_cloudfront_distribution" {
    defaults = { domain_name = "d123.cloudfront.net" }
  }

  mock_resource "aws_cloudfront_function" {
    defaults = { arn = "arn:aws:cloudfront::123456789012:function/det-lab-relay" }
  }

  mock_resource "aws_instance" {
    defaults = { arn = "arn:aws:ec2:eu-west-1:123456789012:instance/i-1", id = "i-1", private_dns = "ip-10-60-0-9.eu-west-1.compute.internal" }
  }

  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "ami-1" }
  }

  mock_data "aws_ec2_managed_prefix_list" {
    defaults = { id = "pl-1" }
  }

  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::bucket" }
  }
}

variables {
  cluster_id            = "lab"
  region                = "eu-west-1"
  zip                   = "versions.tf"
  initial_user_password = "Password1"
}

run "a_cluster" {
  assert {
    condition     = output.url == "https://abc.lambda-url.eu-west-1.on.aws"
    error_message = "The address is not that of the API's function: ${output.url}"
  }

  assert {
    condition     = output.bucket == "det-lab-eu-west-1-123456789012"
    error_message = "The bucket has another name: ${output.bucket}"
  }

  assert {
    condition     = toset(keys(output.functions)) == toset(["api", "tick", "provision", "migrate", "keys"])
    error_message = "The functions are others: ${join(", ", keys(output.functions))}"
  }

  assert {
    condition     = length(output.machine_subnet_ids) == 4
    error_message = "Machines are not offered every zone."
  }

  assert {
    condition     = local.function_zones == tolist(["eu-west-1a", "eu-west-1b", "eu-west-1c"])
    error_message = "Functions and database of clusters that are there would move: ${join(", ", local.function_zones)}"
  }
}

run "a_name_that_aws_refuses_is_refused" {
  command = plan

  variables {
    cluster_id = "1_lab"
  }

  expect_failures = [var.cluster_id]
}

run "a_cluster_of_such_a_name_can_be_removed" {
  command = plan

  variables {
    cluster_id = "my--lab"
    removal    = "20261124120000"
  }
}

run "an_instance_instead_of_aurora" {
  variables {
    database = "rds"
  }

  assert {
    condition     = module.database.port == 5433
    error_message = "The functions connect to another database than the instance."
  }
}

run "a_snapshot_gets_to_the_database_and_its_key_to_the_functions" {
  variables {
    database_snapshot = { name = "det-lab-final1", version = "16.8", disk_gb = 1 }
    secrets_key       = "of the former cluster"
  }

  assert {
    condition     = local.secrets_key == "of the former cluster"
    error_message = "Secrets of the former cluster cannot be read."
  }
}

run "without_a_snapshot_a_key_is_made" {
  assert {
    condition     = length(local.secrets_key) == 72
    error_message = "Secrets are encrypted with no key."
  }
}

run "without_a_relay_nothing_of_it_is_made" {
  assert {
    condition     = length(module.relay) == 0 && output.relay == ""
    error_message = "There is a relay that nobody asked for."
  }
}

run "a_relay_gives_the_cluster_one_address" {
  variables {
    relay     = true
    relay_zip = "versions.tf"
  }

  assert {
    condition     = output.url == "https://d123.cloudfront.net"
    error_message = "The address is not that of the distribution: ${output.url}"
  }

  assert {
    condition     = output.relay == "i-1"
    error_message = "The command is not told the relay's machine."
  }
}

run "a_relay_without_its_program_is_refused" {
  command = plan

  variables {
    relay = true
  }

  expect_failures = [var.relay]
}

run "a_gateway_before_the_function" {
  variables {
    endpoint = "api_gateway"
  }

  assert {
    condition     = output.url == "https://abc.execute-api.eu-west-1.amazonaws.com"
    error_message = "The address is not that of the gateway: ${output.url}"
  }
}

run "a_gateway_and_a_relay_are_refused" {
  command = plan

  variables {
    endpoint  = "api_gateway"
    relay     = true
    relay_zip = "versions.tf"
  }

  expect_failures = [var.endpoint]
}

run "a_snapshot_of_an_older_python_is_refused" {
  command = plan

  variables {
    snap_start = true
    runtime    = "python3.11"
  }

  expect_failures = [var.snap_start]
}

run "another_processor_is_refused" {
  command = plan

  variables {
    architecture = "riscv64"
  }

  expect_failures = [var.architecture]
}

run "machines_without_addresses_of_their_own" {
  variables {
    machine_external_ip = false
  }

  assert {
    condition     = toset(output.machine_subnet_ids) == toset(module.network.private_subnet_ids) && length(output.machine_subnet_ids) == 4
    error_message = "Machines without an address would live where only one leads out, or not in every zone."
  }
}

run "zones_keep_their_order_and_the_relay_has_one_that_cloudfront_reaches" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["us-west-1a", "us-west-1b", "us-west-1c"]
      zone_ids = ["usw1-az2", "usw1-az3", "usw1-az1"]
    }
  }

  assert {
    condition     = local.zones == tomap({ "us-west-1a" = 0, "us-west-1b" = 1, "us-west-1c" = 2 }) && local.function_zones == tolist(["us-west-1a", "us-west-1b", "us-west-1c"]) && local.relay_zone == "us-west-1b"
    error_message = "Subnets of clusters that are there would be made anew, or the relay is where CloudFront does not reach it: ${local.relay_zone}"
  }
}

run "zones_that_are_named_are_taken_and_the_relay_has_one_that_cloudfront_reaches" {
  variables {
    zones = ["us-west-1a", "us-west-1c"]
  }

  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["us-west-1a", "us-west-1b", "us-west-1c"]
      zone_ids = ["usw1-az2", "usw1-az3", "usw1-az1"]
    }
  }

  assert {
    condition     = local.zones == tomap({ "us-west-1a" = 0, "us-west-1c" = 1 }) && local.function_zones == tolist(["us-west-1a", "us-west-1c"]) && local.relay_zone == "us-west-1c"
    error_message = "The relay is where CloudFront does not reach it: ${local.relay_zone}"
  }
}

run "a_zone_that_lambda_refuses_has_no_functions" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"]
      zone_ids = ["use1-az1", "use1-az3", "use1-az2", "use1-az4", "use1-az5", "use1-az6"]
    }
  }

  assert {
    condition     = local.function_zones == tolist(["us-east-1a", "us-east-1c", "us-east-1d"])
    error_message = "AWS refuses the functions, after network and database are made: ${join(", ", local.function_zones)}"
  }

  assert {
    condition     = length(output.machine_subnet_ids) == 6
    error_message = "Machines are not offered every zone."
  }
}

run "a_later_zone_has_the_number_of_its_letter_which_no_new_zone_changes" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["ap-northeast-1a", "ap-northeast-1c", "ap-northeast-1d", "ap-northeast-1f"]
      zone_ids = ["apne1-az4", "apne1-az1", "apne1-az2", "apne1-az5"]
    }
  }

  assert {
    condition     = local.zones == tomap({ "ap-northeast-1a" = 0, "ap-northeast-1c" = 1, "ap-northeast-1d" = 2, "ap-northeast-1f" = 5 })
    error_message = "Subnets of clusters that are there would be made anew."
  }
}

run "an_old_zone_is_taken_only_where_clusters_had_it" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["ca-central-1a", "ca-central-1b", "ca-central-1d", "ca-central-1e"]
      zone_ids = ["cac1-az1", "cac1-az2", "cac1-az4", "cac1-az3"]
    }
  }

  assert {
    condition     = keys(local.zones) == tolist(["ca-central-1a", "ca-central-1b", "ca-central-1d"])
    error_message = "AWS may refuse a subnet there: ${join(", ", keys(local.zones))}"
  }
}
