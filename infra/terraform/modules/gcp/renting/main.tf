# Permissions to rent machines: create machines, and delete only the cluster's own.

variable "project" {
  description = "Project of the machines."
  type        = string
}

variable "role_prefix" {
  description = "Prefix of the ids of the roles, which a deleted role keeps for weeks."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster; part of the titles of the roles."
  type        = string
}

variable "member" {
  description = "The account, like serviceAccount:EMAIL."
  type        = string
}

# Not bound to names: where Google chooses the zone, it is not said by which name it judges a machine that is yet to
# be. The machines' account is the only one that may be given to a machine.
resource "google_project_iam_custom_role" "launch" {
  role_id = "${var.role_prefix}_launch"
  title   = "Determined ${var.cluster_id}: start machines"
  permissions = [
    "compute.acceleratorTypes.list",
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.globalOperations.list",
    "compute.images.useReadOnly",
    "compute.instances.create",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.instances.setTags",
    "compute.machineTypes.list",
    "compute.networks.use",
    "compute.regionOperations.get",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.zoneOperations.get",
  ]
}

resource "google_project_iam_member" "launch" {
  project = var.project
  role    = google_project_iam_custom_role.launch.id
  member  = var.member
}

resource "google_project_iam_custom_role" "machines" {
  role_id     = "${var.role_prefix}_provision"
  title       = "Determined ${var.cluster_id}: read and end machines"
  permissions = ["compute.instances.delete", "compute.instances.get", "compute.instances.getSerialPortOutput"]

  # It had the other role's permissions once: they are given before they are taken.
  depends_on = [google_project_iam_member.launch]
}

resource "google_project_iam_member" "machines" {
  project = var.project
  role    = google_project_iam_custom_role.machines.id
  member  = var.member

  condition {
    title       = "machines of Determined"
    description = "Instances are only made, changed and ended under names that Determined gives."
    expression  = "resource.type != \"compute.googleapis.com/Instance\" || resource.name.extract(\"instances/{name}\").startsWith(\"det-\")"
  }
}

output "member" {
  description = "Account that rents."
  value       = google_project_iam_member.launch.member
}
