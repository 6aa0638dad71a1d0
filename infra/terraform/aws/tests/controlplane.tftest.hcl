# Rights and settings of the functions. Each function has its own role, and only `provision` rents machines.

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

  mock_resource "aws_vpc" {
    defaults = { ipv6_cidr_block = "2001:db8:1234::/56" }
  }

  mock_resource "aws_apigatewayv2_api" {
    defaults = { execution_arn = "arn:aws:execute-api:eu-west-1:123456789012:abc" }
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
    error_message = "A function other than provision may start machines."
  }

  assert {
    condition = sort([for name, document in data.aws_iam_policy_document.function : name if contains(flatten([
      for statement in document.statement : [for condition in statement.condition : condition.values if condition.variable == "lambda:SourceFunctionArn"]
      if statement.effect == "Deny" && contains(statement.actions, "ec2:CreateNetworkInterface")
    ]), "arn:aws:lambda:eu-west-1:123456789012:function:det-lab-${name}")]) == tolist(["api", "migrate", "provision", "tick"])
    error_message = "The code of a function may use the rights with which Lambda attaches it to the network."
  }

  assert {
    condition     = [for name, document in data.aws_iam_policy_document.function : name if contains(flatten(document.statement[*].actions), "ec2:TerminateInstances")] == ["provision"]
    error_message = "A function other than provision may terminate machines."
  }

  assert {
    condition     = join(",", data.aws_iam_policy_document.function["keys"].statement[*].sid) == "Logs" && length(aws_lambda_function.keys.vpc_config) == 0 && length(aws_lambda_function.keys.environment) == 0
    error_message = "The function outside the network has rights, a network or an environment."
  }

  assert {
    condition     = alltrue([for statement in data.aws_iam_policy_document.function["provision"].statement : length(statement.condition) > 0 if contains(["StartTaggedMachines", "EndOwnMachines", "PassMachineRole"], statement.sid)])
    error_message = "Provision may start or terminate machines that are not the cluster's."
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.function["provision"].statement : toset(statement.condition[*].variable) if contains(statement.actions, "ec2:CreateTags")] == [toset(["aws:RequestTag/determined-cluster", "ec2:CreateAction"])]
    error_message = "Provision may tag other machines as the cluster's, and terminate them then."
  }
}

run "customer_managed_keys_are_off_by_default" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = length([for action in flatten(values(data.aws_iam_policy_document.function)[*].statement[*].actions) : action if startswith(action, "kms:")]) == 0
    error_message = "A function may use keys that are not listed."
  }
}

run "customer_managed_keys" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    kms_key_arns = ["arn:aws:kms:eu-west-1:123456789012:key/1"]
  }

  assert {
    condition     = toset(flatten([for s in data.aws_iam_policy_document.function["provision"].statement : s.actions if s.resources == toset(["arn:aws:kms:eu-west-1:123456789012:key/1"])])) == toset([for a in ["CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"] : "kms:${a}"])
    error_message = "Machines terminate during their start, because their volumes cannot be encrypted."
  }

  assert {
    condition     = [for s in data.aws_iam_policy_document.function["provision"].statement : s.condition[*].variable if contains(s.actions, "kms:CreateGrant")] == [tolist(["kms:GrantIsForAWSResource"])]
    error_message = "Grants of the key are not restricted to AWS services."
  }

  assert {
    condition     = length([for action in flatten([for name, document in data.aws_iam_policy_document.function : document.statement[*].actions if name != "provision"]) : action if startswith(action, "kms:")]) == 0
    error_message = "A function other than provision may use the key."
  }
}

run "idle_functions_stay_ready" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = { for name, schedule in aws_scheduler_schedule.sign_of_life : name => "${schedule.name} ${schedule.schedule_expression} ${jsondecode(schedule.target[0].input).source}" } == { for name in ["api", "tick", "provision", "migrate"] : name => "det-lab-sign-of-life-${name} rate(3 days) sign-of-life" }
    error_message = "Lambda would remove a function from the network after two idle weeks."
  }

  assert {
    condition     = toset(data.aws_iam_policy_document.scheduler.statement[0].resources) == toset([for name in ["api:live", "tick:live", "provision:live", "migrate"] : "arn:aws:lambda:eu-west-1:123456789012:function:det-lab-${name}"])
    error_message = "The schedules cannot call their functions, or may call others."
  }

  assert {
    condition     = toset(output.schedules) == toset(["det-lab-tick", "det-lab-provision"])
    error_message = "The control plane would turn off the schedule that keeps its functions ready."
  }
}

run "allows_functions_to_start_each_other" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = { for name, config in aws_lambda_function_recursion_config.this : name => "${config.function_name} ${config.recursive_loop}" } == { tick = "det-lab-tick Allow", provision = "det-lab-provision Allow", keys = "det-lab-keys Allow" }
    error_message = "Lambda would drop the seventeenth call of a chain of scheduler and provisioner."
  }
}

run "sets_no_recursion_config_where_lambda_has_none" {
  module {
    source = "../modules/aws/controlplane"
  }

  override_data {
    target = data.aws_region.current
    values = { name = "mx-central-1" }
  }

  assert {
    condition     = length(aws_lambda_function_recursion_config.this) == 0
    error_message = "Lambda does not have this setting in this region, and refuses it."
  }
}

run "uses_ipv6_addresses_of_aws" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = alltrue([for f in concat([aws_lambda_function.api], values(aws_lambda_function.worker)) : f.environment[0].variables["AWS_USE_DUALSTACK_ENDPOINT"] == "true" && f.environment[0].variables["DET_AWS_IPV6_ONLY"] == "true"])
    error_message = "A function calls AWS by IPv4, which cannot leave the network."
  }
}

run "uses_ipv4_addresses_of_aws_with_nat" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    has_nat = true
  }

  assert {
    condition     = alltrue([for f in concat([aws_lambda_function.api], values(aws_lambda_function.worker)) : f.environment[0].variables["AWS_USE_DUALSTACK_ENDPOINT"] == "false" && f.environment[0].variables["DET_AWS_IPV6_ONLY"] == "false"])
    error_message = "A function uses IPv6 endpoints, which some regions lack, although IPv4 can leave the network."
  }
}

run "provision_zip_is_used_by_provision_only" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    provision_zip = "main.tf"
  }

  assert {
    condition     = { for name, worker in aws_lambda_function.worker : name => worker.filename } == { tick = "versions.tf", migrate = "versions.tf", provision = "main.tf" }
    error_message = "A function other than provision contains the client of Google Cloud, or provision lacks it."
  }
}

run "no_relay" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.api.environment[0].variables), "DET_RELAY_URL") && !contains(keys(aws_lambda_function.worker["provision"].environment[0].variables), "DET_RELAY_INSTANCE")
    error_message = "The functions expect a relay that does not exist."
  }

  assert {
    condition     = !contains(flatten(data.aws_iam_policy_document.function["provision"].statement[*].actions), "ec2:StartInstances")
    error_message = "A role may start a relay that does not exist."
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
    error_message = "The functions do not have the relay's address and machine."
  }

  assert {
    condition     = alltrue([for worker in aws_lambda_function.worker : worker.environment[0].variables["DET_PUBLIC_URL"] == "https://d123.cloudfront.net"])
    error_message = "Machines would get an address that is not the cluster's."
  }

  assert {
    condition     = [for name, document in data.aws_iam_policy_document.function : name if contains(flatten(document.statement[*].actions), "ec2:StartInstances")] == ["provision"]
    error_message = "A function other than provision may start the relay."
  }

  assert {
    condition     = one([for statement in data.aws_iam_policy_document.function["provision"].statement : one(statement.condition).values if statement.sid == "StartRelay"]) == tolist(["lab/relay"])
    error_message = "Provision may start stopped machines other than the relay."
  }
}

run "snap_start" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    snap_start = true
    runtime    = "python3.12"
  }

  assert {
    condition     = one(aws_lambda_function.api.snap_start).apply_on == "PublishedVersions" && aws_lambda_function.api.publish
    error_message = "The API does not start from a snapshot."
  }
}

run "functions_write_only_their_own_log_lines" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition = alltrue([
      for each in concat([aws_lambda_function.api, aws_lambda_function.keys], values(aws_lambda_function.worker)) :
      one(each.logging_config).system_log_level == "WARN" && one(each.logging_config).application_log_level == "INFO"
    ])
    error_message = "The platform writes lines about each request, or the function's own lines are off."
  }
}

run "memory_of_one_function" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    memory_mb = { tick = 512 }
  }

  assert {
    condition     = aws_lambda_function.worker["tick"].memory_size == 512 && aws_lambda_function.worker["provision"].memory_size == 1024 && aws_lambda_function.api.memory_size == 1024
    error_message = "A function other than the named one has this memory."
  }
}

run "rejects_memory_of_unknown_function" {
  command = plan

  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    memory_mb = { tock = 512 }
  }

  expect_failures = [var.memory_mb]
}

run "function_url" {
  module {
    source = "../modules/aws/controlplane"
  }

  assert {
    condition     = length(aws_lambda_function_url.api) == 1 && length(aws_lambda_permission.gateway) == 0
    error_message = "The API has no address, or has two."
  }

  assert {
    condition     = aws_lambda_permission.url[0].action == "lambda:InvokeFunctionUrl" && aws_lambda_permission.url[0].function_url_auth_type == "NONE"
    error_message = "Anonymous callers may invoke the function directly."
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.this) == 0
    error_message = "There are alarms without a topic."
  }
}

run "gateway" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    endpoint = "api_gateway"
  }

  assert {
    condition     = length(aws_lambda_function_url.api) == 0 && length(aws_lambda_permission.url) == 0 && aws_lambda_permission.gateway[0].principal == "apigateway.amazonaws.com"
    error_message = "The function has a second address."
  }

  assert {
    condition     = aws_apigatewayv2_integration.this[0].timeout_milliseconds == 29000 && aws_apigatewayv2_integration.this[0].payload_format_version == "2.0" && aws_lambda_function.api.timeout == 30
    error_message = "The gateway waits for longer than the function, or uses another payload format."
  }

  assert {
    condition     = aws_apigatewayv2_route.this[0].route_key == "$default" && aws_apigatewayv2_stage.this[0].name == "$default"
    error_message = "The API sees other paths than the client requested."
  }
}

run "alarms" {
  module {
    source = "../modules/aws/controlplane"
  }

  variables {
    alarm_topic_arn = "arn:aws:sns:eu-west-1:123456789012:alarms"
  }

  assert {
    condition     = alltrue([for name in ["api-errors", "keys-errors", "migrate-errors", "api-throttles", "api-duration", "tick-duration", "tick-dropped", "provision-dropped"] : contains(keys(aws_cloudwatch_metric_alarm.this), name)])
    error_message = "A failure has no alarm: ${join(", ", keys(aws_cloudwatch_metric_alarm.this))}"
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.this) == 12
    error_message = "The number of alarms differs from the twelve that the command and the guide price."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["tick-duration"].threshold == 108000 && aws_cloudwatch_metric_alarm.this["api-duration"].threshold == 27000
    error_message = "The alarm's duration does not match the function's timeout."
  }

  assert {
    condition     = alltrue([for alarm in aws_cloudwatch_metric_alarm.this : alarm.alarm_actions == toset(["arn:aws:sns:eu-west-1:123456789012:alarms"])])
    error_message = "An alarm does not notify the topic."
  }
}

run "alarms_of_aurora" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "aurora"
    max_capacity             = 4
    instance_class           = ""
    pause_after_s            = 300
    client_security_group_id = "sg-1"
    keep                     = false
    removal                  = ""
    alarm_topic_arn          = "arn:aws:sns:eu-west-1:123456789012:alarms"
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["capacity"].dimensions == tomap({ DBClusterIdentifier = "det-lab" })
    error_message = "The alarm watches another database."
  }
}

run "alarms_of_rds" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "rds"
    max_capacity             = 4
    instance_class           = "db.t4g.micro"
    pause_after_s            = 300
    client_security_group_id = "sg-1"
    keep                     = false
    removal                  = ""
    alarm_topic_arn          = "arn:aws:sns:eu-west-1:123456789012:alarms"
  }

  assert {
    condition     = toset(keys(aws_cloudwatch_metric_alarm.this)) == toset(["cpu", "disk"]) && aws_cloudwatch_metric_alarm.this["disk"].dimensions == tomap({ DBInstanceIdentifier = "det-lab" })
    error_message = "The alarms watch another database."
  }
}

run "creates_nat_gateway_only_for_machines_without_addresses" {
  module {
    source = "../modules/aws/network"
  }

  variables {
    cidr           = "10.60.0.0/16"
    zones          = { "eu-west-1a" = 0, "eu-west-1b" = 1 }
    function_zones = ["eu-west-1a", "eu-west-1b"]
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_route.private_ipv4) == 0
    error_message = "An idle network costs money by the hour."
  }
}

run "network_of_machines_without_addresses" {
  module {
    source = "../modules/aws/network"
  }

  variables {
    cidr           = "10.60.0.0/16"
    zones          = { "eu-west-1a" = 0, "eu-west-1b" = 1 }
    function_zones = ["eu-west-1a", "eu-west-1b"]
    nat            = true
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 1 && aws_route.private_ipv4[0].route_table_id == aws_route_table.private.id
    error_message = "Machines in private subnets could not download images and packages."
  }
}
