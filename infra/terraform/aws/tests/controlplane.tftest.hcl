# Who may do what: one role a function, and one of them rents machines.

mock_provider "aws" {
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

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/det" }
  }

  mock_resource "aws_lambda_alias" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:det:live" }
  }

  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:det" }
  }
}

variables {
  name                 = "det-lab"
  cluster_id           = "lab"
  zip                  = "versions.tf"
  runtime              = "python3.11"
  architecture         = "x86_64"
  snap_start           = false
  api_concurrency      = 50
  log_retention_days   = 30
  vpc_id               = "vpc-1"
  subnet_ids           = ["subnet-1"]
  bucket_arn           = "arn:aws:s3:::bucket"
  machine_role_arn     = "arn:aws:iam::123456789012:role/machine"
  permissions_boundary = null
  alarm_topic_arn      = null
  environment          = { DET_DB_URL = "postgresql://u:p@h/d" }
}

run "rights" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = alltrue(flatten([for document in data.aws_iam_policy_document.function : [for statement in document.statement : [for action in statement.actions : can(regex("^[a-z0-9]+:[A-Za-z]+$", action))]]]))
    error_message = "A role has an action with a wildcard."
  }

  assert {
    condition     = [for name, document in data.aws_iam_policy_document.function : name if contains(flatten(document.statement[*].actions), "ec2:RunInstances")] == ["provision"]
    error_message = "Another function than provision may start machines."
  }

  assert {
    condition     = [for name, document in data.aws_iam_policy_document.function : name if contains(flatten(document.statement[*].actions), "ec2:TerminateInstances")] == ["provision"]
    error_message = "Another function than provision may end machines."
  }

  assert {
    condition     = join(",", data.aws_iam_policy_document.function["keys"].statement[*].sid) == "Logs" && length(aws_lambda_function.keys.vpc_config) == 0 && length(aws_lambda_function.keys.environment) == 0
    error_message = "The function outside the network has more than it needs."
  }

  assert {
    condition     = alltrue([for statement in data.aws_iam_policy_document.function["provision"].statement : length(statement.condition) > 0 if contains(["StartTaggedMachines", "EndOwnMachines", "PassMachineRole"], statement.sid)])
    error_message = "Machines of others could be started or ended."
  }
}

run "another_zip_is_that_of_the_function_that_rents" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    provision_zip = "main.tf"
  }

  assert {
    condition     = { for name, worker in aws_lambda_function.worker : name => worker.filename } == { tick = "versions.tf", migrate = "versions.tf", provision = "main.tf" }
    error_message = "Another function carries the client of Google Cloud, or provision does not."
  }
}

run "no_relay" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.api.environment[0].variables), "DET_RELAY_URL") && !contains(keys(aws_lambda_function.worker["provision"].environment[0].variables), "DET_RELAY_INSTANCE")
    error_message = "The functions wait for a relay that is not there."
  }

  assert {
    condition     = !contains(flatten(data.aws_iam_policy_document.function["provision"].statement[*].actions), "ec2:StartInstances")
    error_message = "A machine could be started that is not there."
  }
}

run "with_a_relay" {
  variables {
    has_relay         = true
    public_url        = "https://d123.cloudfront.net"
    front_secret      = "secret"
    relay_instance_id = "i-1"
  }

  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = aws_lambda_function.api.environment[0].variables["DET_RELAY_URL"] == "/" && aws_lambda_function.worker["provision"].environment[0].variables["DET_RELAY_INSTANCE"] == "i-1"
    error_message = "The functions do not know the relay."
  }

  assert {
    condition     = alltrue([for worker in aws_lambda_function.worker : worker.environment[0].variables["DET_PUBLIC_URL"] == "https://d123.cloudfront.net"])
    error_message = "Machines would be told another address than the cluster's."
  }

  assert {
    condition     = [for name, document in data.aws_iam_policy_document.function : name if contains(flatten(document.statement[*].actions), "ec2:StartInstances")] == ["provision"]
    error_message = "Another function than provision may start the relay."
  }

  assert {
    condition     = one([for statement in data.aws_iam_policy_document.function["provision"].statement : one(statement.condition).values if statement.sid == "StartRelay"]) == tolist(["lab/relay"])
    error_message = "Other machines than the relay could be started."
  }
}
