terraform {
  required_version = ">= 1.10"

  required_providers {
    google = {
      source = "hashicorp/google"
      # Tests check the stack against the schema of this version. `det deploy gcp` stores the lock file of its first `init`.
      version = "8.7.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}
