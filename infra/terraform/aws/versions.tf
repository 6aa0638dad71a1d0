terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.90"
    }
  }
}

provider "aws" {
  region = var.region

  # A local substitute for AWS, for tests, does not check credentials and has one address for all services.
  skip_credentials_validation = var.endpoint_url != ""
  skip_metadata_api_check     = var.endpoint_url != ""
  s3_use_path_style           = var.endpoint_url != ""

  dynamic "endpoints" {
    for_each = var.endpoint_url == "" ? [] : [var.endpoint_url]

    content {
      apigatewayv2   = endpoints.value
      budgets        = endpoints.value
      cloudfront     = endpoints.value
      cloudwatch     = endpoints.value
      ec2            = endpoints.value
      iam            = endpoints.value
      lambda         = endpoints.value
      logs           = endpoints.value
      rds            = endpoints.value
      s3             = endpoints.value
      scheduler      = endpoints.value
      secretsmanager = endpoints.value
      ssm            = endpoints.value
      sts            = endpoints.value
    }
  }

  default_tags {
    tags = merge(var.tags, {
      managed-by         = "determined"
      determined-cluster = var.cluster_id
    })
  }
}
