# A cluster on Google Cloud in an existing network: `terraform init && terraform apply`.

terraform {
  required_version = ">= 1.10"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.2, < 9.0"
    }
  }
}

variable "project" {
  description = "Id of the project."
  type        = string
}

variable "image" {
  description = "Image of the control plane, with its digest."
  type        = string
}

variable "initial_user_password" {
  description = "Password of admin and determined at the first start."
  type        = string
  sensitive   = true
}

data "google_compute_network" "company" {
  name    = "company"
  project = var.project
}

data "google_compute_subnetwork" "training" {
  name    = "training"
  region  = "europe-west4"
  project = var.project
}

# The range of addresses for Cloud SQL. A network needs one. If another database uses the network already, leave this
# resource and the connection out, and set the id of the existing connection.
resource "google_compute_global_address" "services" {
  name          = "google-services"
  project       = var.project
  network       = data.google_compute_network.company.id
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
}

resource "google_service_networking_connection" "services" {
  network                 = data.google_compute_network.company.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.services.name]
  # Google keeps the addresses of an earlier connection of this network.
  update_on_creation_fail = true
}

module "cluster" {
  source                = "../../gcp"
  cluster_id            = "training"
  project               = var.project
  region                = "europe-west4"
  image                 = var.image
  initial_user_password = var.initial_user_password
  network_id            = data.google_compute_network.company.id
  subnetwork_id         = data.google_compute_subnetwork.training.id
  network_peering       = google_service_networking_connection.services.id
  # The network has its own NAT.
  machine_external_ip = false
}

output "url" {
  description = "Address of the cluster: DET_MASTER."
  value       = module.cluster.url
}
