# One role for each function, with only the rights that it needs. Actions that AWS cannot restrict to resources have their own
# statements.

data "aws_iam_policy_document" "assume_lambda" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "assume_scheduler" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
  }
}

resource "aws_iam_role" "function" {
  for_each             = local.functions
  name                 = "${var.name}-${each.key}"
  assume_role_policy   = data.aws_iam_policy_document.assume_lambda.json
  permissions_boundary = var.permissions_boundary
}

resource "aws_iam_role_policy" "function" {
  for_each = local.functions
  name     = "function"
  role     = aws_iam_role.function[each.key].id
  policy   = data.aws_iam_policy_document.function[each.key].json
}

data "aws_iam_policy_document" "function" {
  for_each = local.functions

  statement {
    sid       = "Logs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this[each.key].arn}:*"]
  }

  # Lambda attaches functions to the network with these rights. AWS cannot restrict them to resources.
  dynamic "statement" {
    for_each = each.key == "keys" ? [] : [1]

    content {
      sid = "Network"
      actions = [
        "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
        "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
      ]
      resources = ["*"]
    }
  }

  # The rights above are for Lambda itself. This statement denies them to the code of the function.
  dynamic "statement" {
    for_each = each.key == "keys" ? [] : [1]

    content {
      sid    = "NoNetworkForCode"
      effect = "Deny"
      actions = [
        "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface", "ec2:DetachNetworkInterface",
        "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
      ]
      resources = ["*"]

      condition {
        test     = "ArnLike"
        variable = "lambda:SourceFunctionArn"
        values   = [local.arns[each.key], "${local.arns[each.key]}:*"]
      }
    }
  }

  dynamic "statement" {
    for_each = contains(["api", "tick"], each.key) ? [1] : []

    content {
      sid       = "ReachOut"
      actions   = ["lambda:InvokeFunction"]
      resources = [local.arns.keys]
    }
  }

  dynamic "statement" {
    for_each = contains(["api", "tick"], each.key) ? [1] : []

    content {
      sid       = "Objects"
      actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
      resources = ["${var.bucket_arn}/*"]
    }
  }

  dynamic "statement" {
    for_each = contains(["api", "tick"], each.key) ? [1] : []

    content {
      sid       = "ListObjects"
      actions   = ["s3:ListBucket"]
      resources = [var.bucket_arn]
    }
  }

  dynamic "statement" {
    for_each = contains(["api", "tick", "provision"], each.key) ? [1] : []

    content {
      sid       = "StartEachOther"
      actions   = ["lambda:InvokeFunction"]
      resources = ["${local.arns.tick}:live", "${local.arns.provision}:live"]
    }
  }

  dynamic "statement" {
    for_each = each.key == "tick" ? [1] : []

    content {
      sid       = "SwitchSchedules"
      actions   = ["scheduler:GetSchedule", "scheduler:UpdateSchedule"]
      resources = ["${local.arn_prefix}:scheduler:${local.region}:${local.account}:schedule/default/${var.name}-*"]
    }
  }

  dynamic "statement" {
    for_each = each.key == "tick" ? [1] : []

    content {
      sid       = "PassSchedulerRole"
      actions   = ["iam:PassRole"]
      resources = [aws_iam_role.scheduler.arn]
    }
  }

  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid = "LookAtMachines"
      actions = [
        "ec2:DescribeInstances", "ec2:DescribeImages", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
      ]
      resources = ["*"]
    }
  }

  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid       = "Images"
      actions   = ["ssm:GetParameters"]
      resources = ["${local.arn_prefix}:ssm:*::parameter/aws/service/*"]
    }
  }

  # EC2 encodes the reason of a denial. This action cannot be restricted to a resource.
  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid       = "ReadDenials"
      actions   = ["sts:DecodeAuthorizationMessage"]
      resources = ["*"]
    }
  }

  # Machines and their volumes get the cluster's tag when they are created.
  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid       = "StartTaggedMachines"
      actions   = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreatePlacementGroup"]
      resources = [for kind in ["instance", "volume", "fleet", "launch-template", "spot-instances-request", "placement-group"] : "${local.arn_prefix}:ec2:*:${local.account}:${kind}/*"]

      condition {
        test     = "StringEquals"
        variable = "aws:RequestTag/determined-cluster"
        values   = [var.cluster_id]
      }
    }
  }

  # Tags can be set only while a resource is created. Otherwise the cluster could tag other machines as its own.
  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid       = "TagWhatIsMade"
      actions   = ["ec2:CreateTags"]
      resources = [for kind in ["instance", "volume", "fleet", "launch-template", "spot-instances-request", "placement-group"] : "${local.arn_prefix}:ec2:*:${local.account}:${kind}/*"]

      condition {
        test     = "StringEquals"
        variable = "aws:RequestTag/determined-cluster"
        values   = [var.cluster_id]
      }

      condition {
        test     = "StringEquals"
        variable = "ec2:CreateAction"
        values   = ["RunInstances", "CreateFleet", "CreateLaunchTemplate", "CreatePlacementGroup"]
      }
    }
  }

  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid     = "StartMachinesWith"
      actions = ["ec2:RunInstances", "ec2:CreateFleet"]
      resources = concat(
        [for kind in ["network-interface", "subnet", "security-group", "key-pair", "placement-group", "capacity-reservation", "launch-template"] : "${local.arn_prefix}:ec2:*:${local.account}:${kind}/*"],
        ["${local.arn_prefix}:ec2:*::image/*", "${local.arn_prefix}:ec2:*::snapshot/*"],
      )
    }
  }

  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid       = "EndOwnMachines"
      actions   = ["ec2:TerminateInstances", "ec2:GetConsoleOutput", "ec2:DeleteLaunchTemplate", "ec2:DeletePlacementGroup"]
      resources = [for kind in ["instance", "launch-template", "placement-group"] : "${local.arn_prefix}:ec2:*:${local.account}:${kind}/*"]

      condition {
        test     = "StringEquals"
        variable = "aws:ResourceTag/determined-cluster"
        values   = [var.cluster_id]
      }
    }
  }

  # EC2 encrypts volumes on behalf of the role that starts their machine.
  dynamic "statement" {
    for_each = each.key == "provision" && length(var.kms_key_arns) > 0 ? [1] : []

    content {
      sid       = "EncryptVolumes"
      actions   = ["kms:DescribeKey", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
      resources = var.kms_key_arns
    }
  }

  dynamic "statement" {
    for_each = each.key == "provision" && length(var.kms_key_arns) > 0 ? [1] : []

    content {
      sid       = "LendKeysToVolumes"
      actions   = ["kms:CreateGrant"]
      resources = var.kms_key_arns

      condition {
        test     = "Bool"
        variable = "kms:GrantIsForAWSResource"
        values   = ["true"]
      }
    }
  }

  # No right to stop the relay is needed: its machine stops itself.
  dynamic "statement" {
    for_each = each.key == "provision" && var.has_relay ? [1] : []

    content {
      sid       = "StartRelay"
      actions   = ["ec2:StartInstances"]
      resources = ["${local.arn_prefix}:ec2:${local.region}:${local.account}:instance/*"]

      condition {
        test     = "StringEquals"
        variable = "aws:ResourceTag/determined-cluster"
        values   = ["${var.cluster_id}/relay"]
      }
    }
  }

  dynamic "statement" {
    for_each = each.key == "provision" ? [1] : []

    content {
      sid       = "PassMachineRole"
      actions   = ["iam:PassRole"]
      resources = [var.machine_role_arn]

      condition {
        test     = "StringEquals"
        variable = "iam:PassedToService"
        values   = ["ec2.amazonaws.com"]
      }
    }
  }
}

resource "aws_iam_role" "scheduler" {
  name                 = "${var.name}-scheduler"
  assume_role_policy   = data.aws_iam_policy_document.assume_scheduler.json
  permissions_boundary = var.permissions_boundary
}

data "aws_iam_policy_document" "scheduler" {
  statement {
    actions   = ["lambda:InvokeFunction"]
    resources = concat([for name in ["api", "tick", "provision"] : "${local.arns[name]}:live"], [local.arns.migrate])
  }
}

resource "aws_iam_role_policy" "scheduler" {
  name   = "invoke"
  role   = aws_iam_role.scheduler.id
  policy = data.aws_iam_policy_document.scheduler.json
}
