terraform {
  required_version = ">= 1.10"

  required_providers {
    google = {
      source = "hashicorp/google"
      # The one against whose schema the stack is checked. `det deploy gcp` keeps the lock file of its first `init`.
      version = "8.7.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}
