terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.90"
    }
  }
}

provider "aws" {
  region = var.region

  default_tags {
    tags = {
      managed-by         = "determined"
      determined-cluster = var.cluster_id
    }
  }
}
