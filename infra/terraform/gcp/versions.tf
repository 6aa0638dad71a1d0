terraform {
  required_version = ">= 1.10"

  required_providers {
    google = {
      source = "hashicorp/google"
      # Tests check the stack against this version's schema. `det deploy gcp` stores the lock file of its first `init`.
      version = "8.7.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}
