terraform {
  required_version = ">= 1.10"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.2, < 9.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}
