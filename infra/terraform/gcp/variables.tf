variable "cluster_id" {
  description = "Name of the cluster; part of all resource names."
  type        = string

  validation {
    # A removal also works for a cluster with a name that is not allowed any more.
    condition     = var.removal != "" || can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$", var.cluster_id))
    error_message = "Give a small letter, then at most 19 small letters, digits and hyphens; no hyphen at the end."
  }
}

variable "project" {
  description = "Id of the Google Cloud project."
  type        = string
}

variable "region" {
  description = "Region of all resources except machines of pools in other regions."
  type        = string
}

variable "cidr" {
  description = "IPv4 range of services and machines."
  type        = string
  default     = "10.60.0.0/20"
}

variable "machine_cidr" {
  description = "IPv4 range of the machines' subnet, if machine_external_ip is false."
  type        = string
  default     = "10.60.16.0/20"
}

variable "network_id" {
  description = "Your own network, with internet access for machines and a peering to Cloud SQL; empty: a new network."
  type        = string
  default     = ""

  validation {
    condition     = var.network_id == "" || (var.subnetwork_id != "" && var.network_peering != "")
    error_message = "Give subnetwork_id and network_peering of the network too."
  }
}

variable "subnetwork_id" {
  description = "Subnet of services and machines in your own network, in the region."
  type        = string
  default     = ""
}

variable "network_peering" {
  description = "Id of your own network's peering with servicenetworking.googleapis.com."
  type        = string
  default     = ""
}

variable "image" {
  description = "Control plane image with its digest, in a registry that Cloud Run can read."
  type        = string
}

variable "memory" {
  description = "Memory of a service instance."
  type        = string
  default     = "1Gi"
}

variable "api_instances" {
  description = "Maximum API instances; each uses up to eight database connections."
  type        = number
  default     = 4
}

variable "relay" {
  description = "Carry traffic to notebooks, shells, TensorBoards and task ports with a service."
  type        = bool
  default     = true
}

variable "cluster_config" {
  description = "The cluster configuration in YAML; empty: only checkpoints in the bucket."
  type        = string
  default     = ""
  sensitive   = true
}

variable "database_tier" {
  description = "Cloud SQL machine type, such as db-f1-micro or db-custom-2-7680."
  type        = string
  default     = "db-f1-micro"
}

variable "database_disk_gb" {
  description = "Initial disk size of the database in GB; it grows automatically."
  type        = number
  default     = 10

  validation {
    condition     = var.database_disk_gb >= 10
    error_message = "Cloud SQL has no disks of less than 10 GB."
  }
}

variable "secrets_key" {
  description = "Keys of stored secrets, separated by commas: the first encrypts, all decrypt; empty: a generated key."
  type        = string
  default     = ""
  sensitive   = true
}

variable "secret_location" {
  description = "Region of the secrets; empty: Google chooses. It cannot be changed later."
  type        = string
  default     = ""
}

variable "database_highly_available" {
  description = "Keep a database standby in a second zone, at twice the price."
  type        = bool
  default     = false
}

variable "database_max_connections" {
  description = "Maximum database connections."
  type        = number
  default     = 60

  validation {
    condition     = var.database_max_connections >= 8 * var.api_instances + 20
    error_message = "Give eight connections for each instance of the API and twenty for the rest, or fewer api_instances."
  }
}

variable "bucket" {
  description = "Bucket of code and checkpoints; empty: det-CLUSTER-PROJECT."
  type        = string
  default     = ""
}

variable "keep_data" {
  description = "Refuse to remove the database, and the bucket unless it is empty."
  type        = bool
  default     = true
}

variable "removal" {
  description = "Set during a removal: ends the protection of the database."
  type        = string
  default     = ""
}

variable "bucket_lifecycle" {
  description = "Delete replaced versions of objects after a month."
  type        = bool
  default     = true
}

variable "machine_external_ip" {
  description = "Give machines external addresses; otherwise Cloud NAT."
  type        = bool
  default     = true
}

variable "aws_role_arn" {
  description = "AWS role that `provision` assumes, for pools on AWS; empty: none."
  type        = string
  default     = ""
}

variable "alarm_emails" {
  description = "Recipients of mails about services, schedules and the database."
  type        = list(string)
  default     = []
}

variable "log_retention_days" {
  description = "Retention of service logs in days, in a separate log bucket; 0: the project's retention."
  type        = number
  default     = 0

  validation {
    condition     = var.log_retention_days >= 0 && var.log_retention_days <= 3650
    error_message = "Give 1 to 3650 days, or 0."
  }
}

variable "labels" {
  description = "Additional labels of all resources; machines get the labels of their pools."
  type        = map(string)
  default     = {}
}

variable "monthly_budget_usd" {
  description = "Monthly Google Cloud budget, in the currency of the billing account; 0: none."
  type        = number
  default     = 0
}

variable "billing_account" {
  description = "Id of the project's billing account; required for a budget."
  type        = string
  default     = ""

  validation {
    condition     = var.monthly_budget_usd == 0 || var.billing_account != ""
    error_message = "Give the billing account of the project, like 012345-6789AB-CDEF01."
  }
}

variable "budget_emails" {
  description = "Recipients of budget mails; empty: administrators of the billing account."
  type        = list(string)
  default     = []
}

variable "initial_user_password" {
  description = "First password of the users admin and determined."
  type        = string
  sensitive   = true
}
