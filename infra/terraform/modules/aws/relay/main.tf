# Traffic to notebooks, shells, TensorBoards and task ports. Agents connect to a small machine in a
# private subnet, which stops while no such task runs. A CloudFront distribution is the address of
# the cluster and forwards requests to the machine or to the API's function.

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster; part of the machine's tag."
  type        = string
}

variable "zip" {
  description = "Path of the relay's zip file."
  type        = string
}

variable "runtime" {
  description = "Lambda runtime for which the zip was built. The machine uses the same version of Python."
  type        = string
}

variable "architecture" {
  description = "Processor of the zip file: x86_64 or arm64."
  type        = string
}

variable "environment" {
  description = "Environment variables of the relay."
  type        = map(string)
}

variable "api_url" {
  description = "Address of the API's function."
  type        = string
}

variable "front_secret" {
  description = "Secret that the distribution sends to the API, so that the API trusts its headers about the caller."
  type        = string
  sensitive   = true
}

variable "vpc_id" {
  description = "Network of the machine."
  type        = string
}

variable "subnet_id" {
  description = "Private subnet of the machine."
  type        = string
}

variable "zone" {
  description = "Availability zone of that subnet."
  type        = string
}

variable "has_nat" {
  description = "Set if IPv4 can leave the subnet. Then the relay calls AWS by IPv4, which every region supports."
  type        = bool
}

variable "database_security_group_id" {
  description = "Security group of the database, to which the machine's access is added."
  type        = string
}

variable "permissions_boundary" {
  description = "ARN of a permission boundary for the roles, or null."
  type        = string
}

locals {
  port = 8080
  # The tag differs from the tag of rented machines, which the cluster lists and terminates.
  tag      = "${var.cluster_id}/relay"
  function = "${var.name}-relay"
  types    = { x86_64 = "t3.nano", arm64 = "t4g.nano" }

  user_data = templatefile("${path.module}/user-data.sh", {
    region     = data.aws_region.current.name
    function   = local.function
    dual_stack = !var.has_nat
  })
}

data "aws_region" "current" {}
data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

# The addresses from which CloudFront sends requests to origins.
data "aws_ec2_managed_prefix_list" "cloudfront" {
  name = "com.amazonaws.global.cloudfront.origin-facing"
}

# The smallest image of Amazon Linux: a stopped machine costs only its disk.
data "aws_ssm_parameter" "image" {
  name = "/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-default-${var.architecture}"
}

data "aws_iam_policy_document" "assume" {
  for_each = toset(["ec2", "lambda"])

  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["${each.key}.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "this" {
  statement {
    sid       = "OwnProgramAndSettings"
    actions   = ["lambda:GetFunction"]
    resources = ["arn:${data.aws_partition.current.partition}:lambda:${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}:function:${local.function}"]
  }
}

resource "aws_iam_role" "this" {
  name                 = "${var.name}-relay"
  assume_role_policy   = data.aws_iam_policy_document.assume["ec2"].json
  permissions_boundary = var.permissions_boundary
}

resource "aws_iam_role_policy" "this" {
  name   = "relay"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.this.json
}

resource "aws_iam_instance_profile" "this" {
  name = "${var.name}-relay"
  role = aws_iam_role.this.name
}

# This function is never called. It stores the machine's program and settings, encrypted and free of charge. Only the machine's
# role can read them. The function's own role has no rights.
resource "aws_iam_role" "nothing" {
  name                 = "${var.name}-relay-zip"
  assume_role_policy   = data.aws_iam_policy_document.assume["lambda"].json
  permissions_boundary = var.permissions_boundary
}

resource "aws_lambda_function" "this" {
  # checkov:skip=CKV_AWS_115:It is never called, and some accounts do not allow reservations.
  function_name    = local.function
  role             = aws_iam_role.nothing.arn
  filename         = var.zip
  source_code_hash = filebase64sha256(var.zip)
  handler          = "app.app"
  runtime          = var.runtime
  architectures    = [var.architecture]
  publish          = false

  environment {
    variables = merge(var.environment, {
      DET_ROLE           = "relay"
      DET_PUBLIC_URL     = "https://${aws_cloudfront_distribution.this.domain_name}"
      DET_DB_POOL_SIZE   = "4"
      DET_RELAY_IDLE_S   = "600"
      DET_RELAY_FUNCTION = local.function
      DET_AWS_IPV6_ONLY  = tostring(!var.has_nat)
      HOST               = "0.0.0.0"
      PORT               = tostring(local.port)
    })
  }
}

resource "aws_security_group" "this" {
  name        = "${var.name}-relay"
  description = "The relay: CloudFront reaches it, and nothing else"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "cloudfront" {
  security_group_id = aws_security_group.this.id
  prefix_list_id    = data.aws_ec2_managed_prefix_list.cloudfront.id
  ip_protocol       = "tcp"
  from_port         = local.port
  to_port           = local.port
  description       = "Requests for tasks, and agents"
}

resource "aws_vpc_security_group_egress_rule" "ipv4" {
  security_group_id = aws_security_group.this.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
  description       = "The database, and S3 by its gateway endpoint"
}

resource "aws_vpc_security_group_egress_rule" "ipv6" {
  security_group_id = aws_security_group.this.id
  ip_protocol       = "-1"
  cidr_ipv6         = "::/0"
  description       = "Dual-stack endpoints of AWS"
}

resource "aws_vpc_security_group_ingress_rule" "database" {
  security_group_id            = var.database_security_group_id
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
  description                  = "PostgreSQL from the relay"
}

data "aws_default_tags" "current" {}

# A new zone or architecture needs a new machine: an image for the old architecture does not start on the new one. New tags
# also need one: the provider would update the VPC origin, and CloudFront refuses updates while a distribution uses it.
resource "terraform_data" "place" {
  input = "${var.zone}/${var.architecture}/${sha1(jsonencode(data.aws_default_tags.current.tags))}"
}

# AWS refuses to change or delete a VPC origin that a distribution uses. Terraform therefore creates a new machine and a new
# origin, switches the distribution to them, and then deletes the old ones.
resource "aws_instance" "this" {
  ami                                  = data.aws_ssm_parameter.image.insecure_value
  instance_type                        = local.types[var.architecture]
  subnet_id                            = var.subnet_id
  vpc_security_group_ids               = [aws_security_group.this.id]
  iam_instance_profile                 = aws_iam_instance_profile.this.name
  instance_initiated_shutdown_behavior = "stop"
  user_data_replace_on_change          = false
  user_data                            = local.user_data

  # A busy relay becomes slower instead of more expensive: by default AWS charges for processor time beyond the baseline.
  credit_specification {
    cpu_credits = "standard"
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_type = "gp3"
    volume_size = 4
    encrypted   = true
  }

  tags        = { Name = local.function, determined-cluster = local.tag }
  volume_tags = { Name = local.function, determined-cluster = local.tag }

  # A newer image or script would replace the machine and the origin of the distribution, which takes minutes to an hour.
  lifecycle {
    create_before_destroy = true
    ignore_changes        = [ami, user_data]
    replace_triggered_by  = [terraform_data.place.output]
  }

  depends_on = [aws_iam_role_policy.this]
}

resource "aws_cloudfront_vpc_origin" "this" {
  vpc_origin_endpoint_config {
    # The name is unique because two origins exist during a replacement.
    name                   = "${local.function}-${aws_instance.this.id}"
    arn                    = aws_instance.this.arn
    http_port              = local.port
    https_port             = 443
    origin_protocol_policy = "http-only"

    origin_ssl_protocols {
      items    = ["TLSv1.2"]
      quantity = 1
    }
  }

  # AWS documents up to 15 minutes, the provider's default limit. Some creations have taken longer.
  timeouts {
    create = "60m"
    update = "60m"
    delete = "60m"
  }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [vpc_origin_endpoint_config]
    replace_triggered_by  = [aws_instance.this.arn]
  }
}

# Adds headers with the caller's address and the requested host, and overwrites values from the client. The function must not
# set the scheme: CloudFront answers 502 if it sets `x-forwarded-proto` or another disallowed header.
resource "aws_cloudfront_function" "this" {
  name    = local.function
  runtime = "cloudfront-js-2.0"
  publish = true
  code    = <<-END
    function handler(event) {
      var request = event.request;
      request.headers['x-det-viewer'] = { value: event.viewer.ip };
      request.headers['x-forwarded-host'] = { value: request.headers.host.value };
      return request;
    }
  END
}

locals {
  # Managed policies of AWS: CachingDisabled, CachingOptimized, AllViewer, AllViewerExceptHostHeader.
  uncached        = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
  cached          = "658327ea-f89d-4fab-a63d-7e88639e58f6"
  with_host       = "216adef6-5c7f-47e4-b989-5492eafa07d3"
  without_host    = "b689b0a8-53d0-40ab-baf2-68738e2966ac"
  every_method    = ["GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"]
  paths_of_relay  = ["/proxy/*", "/agents/v1/relay"]
  refusals        = [400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504]
  function_domain = trimsuffix(trimprefix(var.api_url, "https://"), "/")
}

resource "aws_cloudfront_distribution" "this" {
  comment         = "Determined ${var.cluster_id}"
  enabled         = true
  is_ipv6_enabled = true
  http_version    = "http2"

  origin {
    origin_id   = "api"
    domain_name = local.function_domain

    custom_header {
      name  = "x-det-front"
      value = var.front_secret
    }

    custom_origin_config {
      http_port              = 80
      https_port             = 443
      origin_protocol_policy = "https-only"
      origin_ssl_protocols   = ["TLSv1.2"]
      # The same time as the function's timeout.
      origin_read_timeout      = 30
      origin_keepalive_timeout = 30
    }
  }

  origin {
    origin_id   = "relay"
    domain_name = aws_instance.this.private_dns

    vpc_origin_config {
      vpc_origin_id            = aws_cloudfront_vpc_origin.this.id
      origin_read_timeout      = 60
      origin_keepalive_timeout = 60
    }
  }

  default_cache_behavior {
    target_origin_id         = "api"
    viewer_protocol_policy   = "https-only"
    allowed_methods          = local.every_method
    cached_methods           = ["GET", "HEAD"]
    cache_policy_id          = local.uncached
    origin_request_policy_id = local.without_host

    function_association {
      event_type   = "viewer-request"
      function_arn = aws_cloudfront_function.this.arn
    }
  }

  # The WebUI's file names change with the content of the files.
  ordered_cache_behavior {
    path_pattern           = "/det/-/*"
    target_origin_id       = "api"
    viewer_protocol_policy = "https-only"
    allowed_methods        = ["GET", "HEAD"]
    cached_methods         = ["GET", "HEAD"]
    cache_policy_id        = local.cached
    compress               = true
  }

  dynamic "ordered_cache_behavior" {
    for_each = local.paths_of_relay

    content {
      path_pattern             = ordered_cache_behavior.value
      target_origin_id         = "relay"
      viewer_protocol_policy   = "https-only"
      allowed_methods          = local.every_method
      cached_methods           = ["GET", "HEAD"]
      cache_policy_id          = local.uncached
      origin_request_policy_id = local.with_host

      function_association {
        event_type   = "viewer-request"
        function_arn = aws_cloudfront_function.this.arn
      }
    }
  }

  # By default CloudFront caches error responses for ten seconds, and would send them to other callers.
  dynamic "custom_error_response" {
    for_each = local.refusals

    content {
      error_code            = custom_error_response.value
      error_caching_min_ttl = 0
    }
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }

  viewer_certificate {
    cloudfront_default_certificate = true
  }
}

output "url" {
  description = "Address of the cluster."
  value       = "https://${aws_cloudfront_distribution.this.domain_name}"
}

output "instance_id" {
  description = "Machine of the relay."
  value       = aws_instance.this.id
}

output "origin_id" {
  description = "VPC origin of the machine."
  value       = aws_cloudfront_vpc_origin.this.id
}
