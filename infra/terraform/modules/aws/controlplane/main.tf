# The functions of the control plane, each with its own role. Only `provision` may start and
# terminate machines. `migrate` upgrades the database before requests reach new code. The functions
# call each other; schedules are a fallback.

data "aws_region" "current" {}
data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

locals {
  workers = {
    tick      = { timeout_s = 120, concurrency = 2 }
    provision = { timeout_s = 300, concurrency = 1 }
    migrate   = { timeout_s = 900, concurrency = 1 }
  }
  api_timeout_s = 30
  # The processor share depends on the memory: 1769 MB get one core.
  memory_mb  = merge({ api = 1024, tick = 1024, provision = 1024, migrate = 1024, keys = 512 }, var.memory_mb)
  functions  = toset(["api", "tick", "provision", "migrate", "keys"])
  arn_prefix = "arn:${data.aws_partition.current.partition}"
  account    = data.aws_caller_identity.current.account_id
  region     = data.aws_region.current.name
  arns       = { for name in local.functions : name => "${local.arn_prefix}:lambda:${local.region}:${local.account}:function:${var.name}-${name}" }
  schedules  = toset(["tick", "provision"])
  # Lambda has no loop detection in these regions, and refuses its setting.
  finds_loops = !contains(["mx-central-1", "ap-southeast-6"], local.region) && !startswith(local.region, "us-gov-")
  # The ARNs of the functions in the network.
  callable = merge({ for name in local.schedules : name => aws_lambda_alias.worker[name].arn }, { api = aws_lambda_alias.api.arn, migrate = aws_lambda_function.worker["migrate"].arn })
  # A new account allows ten concurrent executions in all, and no reservations.
  reserves = var.api_concurrency >= 0
  others   = { provision = var.provision_zip, keys = var.keys_zip }
  zips     = { for name in local.functions : name => coalesce(lookup(local.others, name, ""), var.zip) }
  # The functions call each other by name, because a name is known before its function exists.
  environment = merge(var.environment, {
    DET_TICK_FUNCTION      = "${var.name}-tick:live"
    DET_PROVISION_FUNCTION = "${var.name}-provision:live"
    DET_KEYS_FUNCTION      = "${var.name}-keys"
    DET_DB_POOL_SIZE       = "1"
    # Aurora pauses only without connections. It closes connections of frozen functions after this time. A caller waits
    # while the database wakes.
    DET_DB_IDLE_S = "60"
    DET_DB_WAKE_S = "20"
    # The price list has no IPv6 address, and only IPv6 can leave this network.
    DET_AWS_PRICE_LIST         = "false"
    AWS_USE_DUALSTACK_ENDPOINT = tostring(!var.has_nat)
    DET_AWS_IPV6_ONLY          = tostring(!var.has_nat)
  })
}

resource "aws_security_group" "functions" {
  name        = "${var.name}-functions"
  description = "Functions of the control plane: they reach out, nothing reaches in"
  vpc_id      = var.vpc_id

  # When the cluster is removed, Lambda deletes its network interfaces minutes after the functions, with the rights of their
  # roles. So the roles must exist until the group has no interface.
  depends_on = [aws_iam_role_policy.function]
}

resource "aws_vpc_security_group_egress_rule" "ipv4" {
  security_group_id = aws_security_group.functions.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
  description       = "The database, and S3 by its gateway endpoint"
}

resource "aws_vpc_security_group_egress_rule" "ipv6" {
  security_group_id = aws_security_group.functions.id
  ip_protocol       = "-1"
  cidr_ipv6         = "::/0"
  description       = "Dual-stack endpoints of AWS"
}

resource "aws_cloudwatch_log_group" "this" {
  for_each          = local.functions
  name              = "/aws/lambda/${var.name}-${each.key}"
  retention_in_days = var.log_retention_days
}

resource "aws_lambda_function" "api" {
  function_name                  = "${var.name}-api"
  role                           = aws_iam_role.function["api"].arn
  filename                       = var.zip
  source_code_hash               = filebase64sha256(var.zip)
  handler                        = "app.app"
  runtime                        = var.runtime
  architectures                  = [var.architecture]
  memory_size                    = local.memory_mb["api"]
  timeout                        = local.api_timeout_s
  reserved_concurrent_executions = var.api_concurrency
  publish                        = true

  # By default, Lambda writes three lines for each request. They would cost as much as the request. The durations are in the
  # metrics.
  logging_config {
    log_format            = "JSON"
    application_log_level = "INFO"
    system_log_level      = "WARN"
  }

  environment {
    # The function cannot refer to the distribution, which depends on it. Agents find the relay at the address that they use.
    variables = merge(local.environment, var.has_relay ? { DET_RELAY_URL = "/", DET_FRONT_SECRET = var.front_secret } : {})
  }

  vpc_config {
    subnet_ids                  = var.subnet_ids
    security_group_ids          = [aws_security_group.functions.id]
    ipv6_allowed_for_dual_stack = true
  }

  dynamic "snap_start" {
    for_each = var.snap_start ? [1] : []

    content {
      apply_on = "PublishedVersions"
    }
  }

  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy.function]
}

# The alias that requests call. `det deploy` moves it to a new version after the migration of the database, and moves it back
# if the new version does not answer.
resource "aws_lambda_alias" "api" {
  name             = "live"
  function_name    = aws_lambda_function.api.function_name
  function_version = aws_lambda_function.api.version

  lifecycle {
    ignore_changes = [function_version]
  }
}

resource "aws_lambda_alias" "worker" {
  for_each         = local.schedules
  name             = "live"
  function_name    = aws_lambda_function.worker[each.key].function_name
  function_version = aws_lambda_function.worker[each.key].version

  lifecycle {
    ignore_changes = [function_version]
  }
}

resource "aws_lambda_function" "worker" {
  for_each                       = local.workers
  function_name                  = "${var.name}-${each.key}"
  role                           = aws_iam_role.function[each.key].arn
  filename                       = local.zips[each.key]
  source_code_hash               = filebase64sha256(local.zips[each.key])
  handler                        = "app.${each.key}"
  runtime                        = var.runtime
  architectures                  = [var.architecture]
  memory_size                    = local.memory_mb[each.key]
  timeout                        = each.value.timeout_s
  publish                        = true
  reserved_concurrent_executions = local.reserves ? each.value.concurrency : -1

  logging_config {
    log_format            = "JSON"
    application_log_level = "INFO"
    system_log_level      = "WARN"
  }

  environment {
    variables = merge(local.environment, {
      DET_PUBLIC_URL = var.has_relay ? var.public_url : local.url
      DET_SCHEDULES  = join(",", [for name in local.schedules : "${var.name}-${name}"])
    }, var.has_relay && each.key == "provision" ? { DET_RELAY_INSTANCE = var.relay_instance_id } : {})
  }

  vpc_config {
    subnet_ids                  = var.subnet_ids
    security_group_ids          = [aws_security_group.functions.id]
    ipv6_allowed_for_dual_stack = true
  }

  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy.function]
}

# Fetches the public keys of token issuers, and posts messages of webhooks. Few of these servers have an IPv6 address, and only
# IPv6 can leave the network. So this function runs outside the network, and has neither rights nor secrets.
resource "aws_lambda_function" "keys" {
  function_name                  = "${var.name}-keys"
  role                           = aws_iam_role.function["keys"].arn
  filename                       = local.zips["keys"]
  source_code_hash               = filebase64sha256(local.zips["keys"])
  handler                        = "app.keys"
  runtime                        = var.runtime
  architectures                  = [var.architecture]
  memory_size                    = local.memory_mb["keys"]
  timeout                        = 25
  reserved_concurrent_executions = local.reserves ? 2 : -1

  logging_config {
    log_format            = "JSON"
    application_log_level = "INFO"
    system_log_level      = "WARN"
  }

  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy.function]
}

# While the schedules are off, only these retries repeat calls that failed or were throttled.
resource "aws_lambda_function_event_invoke_config" "worker" {
  for_each                     = local.schedules
  function_name                = aws_lambda_function.worker[each.key].function_name
  qualifier                    = aws_lambda_alias.worker[each.key].name
  maximum_retry_attempts       = 2
  maximum_event_age_in_seconds = 600
}

# `tick` and `provision` call each other and themselves while there is work, and call `keys`. Lambda treats a chain of about
# sixteen such calls as a mistake: it drops the next call and sends a mail to the owner of the account.
resource "aws_lambda_function_recursion_config" "this" {
  for_each       = local.finds_loops ? merge({ for name in local.schedules : name => aws_lambda_function.worker[name] }, { keys = aws_lambda_function.keys }) : {}
  function_name  = each.value.function_name
  recursive_loop = "Allow"
}

resource "aws_scheduler_schedule" "this" {
  for_each            = local.schedules
  name                = "${var.name}-${each.key}"
  schedule_expression = "rate(1 minute)"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_lambda_alias.worker[each.key].arn
    role_arn = aws_iam_role.scheduler.arn
    input    = jsonencode({ source = "schedule" })
  }

  # The control plane turns its schedules off when the cluster is idle, and on again.
  lifecycle {
    ignore_changes = [state]
  }
}

# Lambda removes the network interfaces of a function that was not called for 14 days, and refuses the next calls for a minute
# or two. A lost wake would leave work waiting. The functions ignore these events, and do not connect to the database.
resource "aws_scheduler_schedule" "sign_of_life" {
  for_each            = local.callable
  name                = "${var.name}-sign-of-life-${each.key}"
  schedule_expression = "rate(3 days)"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = each.value
    role_arn = aws_iam_role.scheduler.arn
    input    = jsonencode({ source = "sign-of-life" })
  }
}
