# The cluster's network: a subnet for services and machines, and a peering to Cloud SQL if the cluster uses it. Cloud SQL
# has no public address. Machines have external addresses, or their own subnet with Cloud NAT.

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "region" {
  description = "Region of the subnet."
  type        = string
}

variable "cidr" {
  description = "IPv4 range of the subnet."
  type        = string
}

variable "machine_cidr" {
  description = "IPv4 range of the machines' subnet; used with Cloud NAT."
  type        = string
  default     = "10.60.16.0/20"
}

variable "nat" {
  description = "Give machines without external addresses a Cloud NAT, which costs money by the hour."
  type        = bool
}

variable "database" {
  description = "Peer the network with Cloud SQL."
  type        = bool
}

resource "google_compute_network" "this" {
  name                    = var.name
  auto_create_subnetworks = false
  routing_mode            = "REGIONAL"
}

resource "google_compute_subnetwork" "this" {
  name                     = var.name
  region                   = var.region
  network                  = google_compute_network.this.id
  ip_cidr_range            = var.cidr
  private_ip_google_access = true
}

# The machines have a separate subnet because Google Cloud charges Cloud NAT for each instance of services in its subnet, too.
resource "google_compute_subnetwork" "machines" {
  count                    = var.nat ? 1 : 0
  name                     = "${var.name}-machines"
  region                   = var.region
  network                  = google_compute_network.this.id
  ip_cidr_range            = var.machine_cidr
  private_ip_google_access = true
}

resource "google_compute_global_address" "services" {
  count         = var.database ? 1 : 0
  name          = "${var.name}-services"
  network       = google_compute_network.this.id
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
}

resource "google_service_networking_connection" "this" {
  count                   = var.database ? 1 : 0
  network                 = google_compute_network.this.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = google_compute_global_address.services[*].name
  # Cloud SQL keeps the peering for days after the database is deleted. Removing the network removes it.
  deletion_policy = "ABANDON"
  # Google keeps the peering of a deleted network with this name, and its addresses. This option updates them.
  update_on_creation_fail = true
}

resource "google_compute_router" "this" {
  count   = var.nat ? 1 : 0
  name    = var.name
  region  = var.region
  network = google_compute_network.this.id
}

resource "google_compute_router_nat" "this" {
  count                              = var.nat ? 1 : 0
  name                               = var.name
  region                             = var.region
  router                             = google_compute_router.this[0].name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "LIST_OF_SUBNETWORKS"

  subnetwork {
    name                    = google_compute_subnetwork.machines[0].id
    source_ip_ranges_to_nat = ["ALL_IP_RANGES"]
  }
}

output "network_id" {
  description = "The network."
  value       = google_compute_network.this.id
}

output "subnetwork_id" {
  description = "Subnet of services."
  value       = google_compute_subnetwork.this.id
}

output "machine_subnetwork_id" {
  description = "Subnet of machines: their own subnet with Cloud NAT, otherwise the subnet of services."
  value       = one(concat(google_compute_subnetwork.machines[*].id, var.nat ? [] : [google_compute_subnetwork.this.id]))
}

output "peering" {
  description = "Id of the peering with Cloud SQL, available once Cloud SQL can use addresses of this network; empty for none."
  value       = join("", google_service_networking_connection.this[*].id)
}
