# Permissions to rent machines: create machines, and delete only machines with names of Determined.

variable "project" {
  description = "Project of the machines."
  type        = string
}

variable "role_prefix" {
  description = "Prefix of the ids of the roles. Google Cloud keeps the id of a deleted role for weeks."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster, for the titles of the roles."
  type        = string
}

variable "member" {
  description = "The account, as serviceAccount:EMAIL."
  type        = string
}

# These rights are not restricted by name: if Google chooses the zone, its documentation does not say which name it checks for a
# machine that does not exist yet. The machines' account is the only account that may be attached to a machine.
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
    "compute.resourcePolicies.create",
    "compute.resourcePolicies.delete",
    "compute.resourcePolicies.list",
    "compute.resourcePolicies.use",
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

  # In earlier versions, this role had the permissions of the other role. They are added there before they are removed here.
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
  description = "Account that rents machines."
  value       = google_project_iam_member.launch.member
}
