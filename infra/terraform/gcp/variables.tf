variable "cluster_id" {
  description = "Name of the cluster; part of the names of everything here."
  type        = string

  validation {
    # What part of a cluster another name came to have can be removed.
    condition     = var.removal != "" || can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$", var.cluster_id))
    error_message = "Give a small letter, then at most 19 small letters, digits and hyphens; no hyphen at the end."
  }
}

variable "project" {
  description = "Id of the Google Cloud project."
  type        = string
}

variable "region" {
  description = "Region of everything but the machines, which pools may place elsewhere."
  type        = string
}

variable "cidr" {
  description = "IPv4 range of services and machines."
  type        = string
  default     = "10.60.0.0/20"
}

variable "machine_cidr" {
  description = "IPv4 range of the machines' subnet; used if machines have no external addresses (machine_external_ip = false)."
  type        = string
  default     = "10.60.16.0/20"
}

variable "network_id" {
  description = "Network of your own, with a way out for machines and a peering with Cloud SQL; empty for one that is made here."
  type        = string
  default     = ""

  validation {
    condition     = var.network_id == "" || (var.subnetwork_id != "" && var.network_peering != "")
    error_message = "Give subnetwork_id and network_peering of the network too."
  }
}

variable "subnetwork_id" {
  description = "Subnet of services and machines in a network of your own, in the region."
  type        = string
  default     = ""
}

variable "network_peering" {
  description = "Id of the peering of your own network with servicenetworking.googleapis.com."
  type        = string
  default     = ""
}

variable "image" {
  description = "Image of the control plane in a registry that Cloud Run reads, with its digest."
  type        = string
}

variable "memory" {
  description = "Memory of an instance of a service."
  type        = string
  default     = "1Gi"
}

variable "api_instances" {
  description = "Most instances of the API; each holds up to eight connections of the database."
  type        = number
  default     = 4
}

variable "relay" {
  description = "Carry traffic to notebooks, shells, TensorBoards and ports of tasks, by one more service that runs while there are such tasks; without, they are refused."
  type        = bool
  default     = true
}

variable "cluster_config" {
  description = "The cluster configuration, as YAML; empty for one with checkpoints in the bucket. Kept as a secret, as it may hold keys and passwords."
  type        = string
  default     = ""
  sensitive   = true
}

variable "database_tier" {
  description = "Machine type of Cloud SQL, like db-f1-micro or db-custom-2-7680."
  type        = string
  default     = "db-f1-micro"
}

variable "database_disk_gb" {
  description = "Gigabytes of the database's disk when it is made; it grows with what is in it."
  type        = number
  default     = 10

  validation {
    condition     = var.database_disk_gb >= 10
    error_message = "Cloud SQL makes no disk of less than 10 GB."
  }
}

variable "secrets_key" {
  description = "Keys of the secrets in the database, separated by commas: the first encrypts, all decrypt; empty for one that is made. A backup needs those of its cluster."
  type        = string
  default     = ""
  sensitive   = true
}

variable "secret_location" {
  description = "Region of the secrets, for organisations that restrict locations; empty to let Google choose. It cannot be changed later."
  type        = string
  default     = ""
}

variable "database_highly_available" {
  description = "Keep a standby of the database in a second zone, at twice the price."
  type        = bool
  default     = false
}

variable "database_max_connections" {
  description = "Most connections of the database."
  type        = number
  default     = 60

  validation {
    condition     = var.database_max_connections >= 8 * var.api_instances + 20
    error_message = "Give eight connections for each instance of the API and twenty for the rest, or fewer api_instances."
  }
}

variable "bucket" {
  description = "Name of the bucket of contexts and checkpoints; empty for det-CLUSTER-PROJECT."
  type        = string
  default     = ""
}

variable "keep_data" {
  description = "Refuse to remove the database, and the bucket while it holds anything."
  type        = bool
  default     = true
}

variable "removal" {
  description = "Set while the cluster is removed: ends the protection of the database."
  type        = string
  default     = ""
}

variable "bucket_lifecycle" {
  description = "Delete replaced versions of objects after a month."
  type        = bool
  default     = true
}

variable "machine_external_ip" {
  description = "Give machines addresses of their own; otherwise they reach out by Cloud NAT, which costs money by the hour."
  type        = bool
  default     = true
}

variable "aws_role_arn" {
  description = "Role that `provision` assumes in AWS, for pools that rent there; empty for none."
  type        = string
  default     = ""
}

variable "alarm_emails" {
  description = "Who is told when a service fails, a schedule starts nothing, or the database is full or busy; empty for nobody."
  type        = list(string)
  default     = []
}

variable "log_retention_days" {
  description = "Days that logs of services are kept, in a bucket of logs of their own; 0 for as long as the project's other logs, which is 30 days unless it says otherwise."
  type        = number
  default     = 0

  validation {
    condition     = var.log_retention_days >= 0 && var.log_retention_days <= 3650
    error_message = "Give 1 to 3650 days, or 0."
  }
}

variable "labels" {
  description = "Labels of all that is made here, beside those of the cluster; machines get those of their pools."
  type        = map(string)
  default     = {}
}

variable "monthly_budget_usd" {
  description = "Money a month of the project at which Google Cloud itself writes mails, in the currency of the billing account, dollars or not; 0 for no such alarm."
  type        = number
  default     = 0
}

variable "billing_account" {
  description = "Id of the billing account that pays for the project; needed for an alarm."
  type        = string
  default     = ""

  validation {
    condition     = var.monthly_budget_usd == 0 || var.billing_account != ""
    error_message = "Give the billing account, like 012345-6789AB-CDEF01, whose budget it is."
  }
}

variable "budget_emails" {
  description = "Who gets the mails; empty for those who administer the billing account."
  type        = list(string)
  default     = []
}

variable "initial_user_password" {
  description = "Password of the built-in users admin and determined at the first start."
  type        = string
  sensitive   = true
}
