# Plans of a cluster, which need no AWS account: `terraform test`.

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

run "cluster" {
  assert {
    condition     = output.url == "https://abc.lambda-url.eu-west-1.on.aws"
    error_message = "The address is not the address of the API's function: ${output.url}"
  }

  assert {
    condition     = output.bucket == "det-lab-eu-west-1-123456789012"
    error_message = "The bucket has an unexpected name: ${output.bucket}"
  }

  assert {
    condition     = toset(keys(output.functions)) == toset(["api", "tick", "provision", "migrate", "keys"])
    error_message = "The set of functions is unexpected: ${join(", ", keys(output.functions))}"
  }

  assert {
    condition     = length(output.machine_subnet_ids) == 4
    error_message = "Machines do not have a subnet in every zone."
  }

  assert {
    condition     = local.function_zones == tolist(["eu-west-1a", "eu-west-1b", "eu-west-1c"])
    error_message = "Functions and database of existing clusters would move: ${join(", ", local.function_zones)}"
  }
}

run "rejects_name_that_aws_refuses" {
  command = plan

  variables {
    cluster_id = "1_lab"
  }

  expect_failures = [var.cluster_id]
}

run "accepts_refused_name_for_removal" {
  command = plan

  variables {
    cluster_id = "my--lab"
    removal    = "20261124120000"
  }
}

run "uses_rds_instance_instead_of_aurora" {
  variables {
    database = "rds"
  }

  assert {
    condition     = module.database.port == 5433
    error_message = "The functions do not connect to the instance."
  }
}

run "uses_snapshot_and_its_secrets_key" {
  variables {
    database_snapshot = { name = "det-lab-final1", version = "16.8", disk_gb = 1 }
    secrets_key       = "of the former cluster"
  }

  assert {
    condition     = local.secrets_key == "of the former cluster"
    error_message = "Secrets of the former cluster cannot be decrypted."
  }
}

run "creates_secrets_key_without_snapshot" {
  assert {
    condition     = length(local.secrets_key) == 72
    error_message = "Secrets have no encryption key."
  }
}

run "creates_no_relay_by_default" {
  assert {
    condition     = length(module.relay) == 0 && output.relay == ""
    error_message = "The stack has a relay although `relay` is not set."
  }
}

run "relay_gives_cluster_one_address" {
  variables {
    relay     = true
    relay_zip = "versions.tf"
  }

  assert {
    condition     = output.url == "https://d123.cloudfront.net"
    error_message = "The address is not the address of the distribution: ${output.url}"
  }

  assert {
    condition     = output.relay == "i-1"
    error_message = "The outputs do not contain the relay's machine."
  }
}

run "rejects_relay_without_its_program" {
  command = plan

  variables {
    relay = true
  }

  expect_failures = [var.relay]
}

run "gateway_before_the_function" {
  variables {
    endpoint = "api_gateway"
  }

  assert {
    condition     = output.url == "https://abc.execute-api.eu-west-1.amazonaws.com"
    error_message = "The address is not the address of the gateway: ${output.url}"
  }
}

run "rejects_gateway_with_relay" {
  command = plan

  variables {
    endpoint  = "api_gateway"
    relay     = true
    relay_zip = "versions.tf"
  }

  expect_failures = [var.endpoint]
}

run "rejects_snap_start_of_old_python" {
  command = plan

  variables {
    snap_start = true
    runtime    = "python3.11"
  }

  expect_failures = [var.snap_start]
}

run "rejects_unknown_architecture" {
  command = plan

  variables {
    architecture = "riscv64"
  }

  expect_failures = [var.architecture]
}

run "machines_without_external_addresses" {
  variables {
    machine_external_ip = false
  }

  assert {
    condition     = toset(output.machine_subnet_ids) == toset(module.network.private_subnet_ids) && length(output.machine_subnet_ids) == 4
    error_message = "Machines without external addresses are in subnets without NAT, or do not have a subnet in every zone."
  }
}

run "zones_keep_their_order_and_cloudfront_reaches_relay" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["us-west-1a", "us-west-1b", "us-west-1c"]
      zone_ids = ["usw1-az2", "usw1-az3", "usw1-az1"]
    }
  }

  assert {
    condition     = local.zones == tomap({ "us-west-1a" = 0, "us-west-1b" = 1, "us-west-1c" = 2 }) && local.function_zones == tolist(["us-west-1a", "us-west-1b", "us-west-1c"]) && local.relay_zone == "us-west-1b"
    error_message = "Subnets of existing clusters would be replaced, or CloudFront cannot reach the relay: ${local.relay_zone}"
  }
}

run "uses_named_zones_and_cloudfront_reaches_relay" {
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
    error_message = "CloudFront cannot reach the relay: ${local.relay_zone}"
  }
}

run "zone_that_lambda_refuses_has_no_functions" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"]
      zone_ids = ["use1-az1", "use1-az3", "use1-az2", "use1-az4", "use1-az5", "use1-az6"]
    }
  }

  assert {
    condition     = local.function_zones == tolist(["us-east-1a", "us-east-1c", "us-east-1d"])
    error_message = "AWS would refuse the functions after network and database are created: ${join(", ", local.function_zones)}"
  }

  assert {
    condition     = length(output.machine_subnet_ids) == 6
    error_message = "Machines do not have a subnet in every zone."
  }
}

run "later_zone_has_number_of_its_letter" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["ap-northeast-1a", "ap-northeast-1c", "ap-northeast-1d", "ap-northeast-1f"]
      zone_ids = ["apne1-az4", "apne1-az1", "apne1-az2", "apne1-az5"]
    }
  }

  assert {
    condition     = local.zones == tomap({ "ap-northeast-1a" = 0, "ap-northeast-1c" = 1, "ap-northeast-1d" = 2, "ap-northeast-1f" = 5 })
    error_message = "Subnets of existing clusters would be replaced."
  }
}

run "old_zone_is_used_only_by_old_clusters" {
  override_data {
    target = data.aws_availability_zones.available
    values = {
      names    = ["ca-central-1a", "ca-central-1b", "ca-central-1d", "ca-central-1e"]
      zone_ids = ["cac1-az1", "cac1-az2", "cac1-az4", "cac1-az3"]
    }
  }

  assert {
    condition     = keys(local.zones) == tolist(["ca-central-1a", "ca-central-1b", "ca-central-1d"])
    error_message = "AWS may refuse a subnet in one of these zones: ${join(", ", keys(local.zones))}"
  }
}
