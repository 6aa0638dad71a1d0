variable "cluster_id" {
  description = "Name of the cluster; part of all resource names."
  type        = string

  validation {
    # A removal also works for a cluster with a name that is not allowed any more.
    condition     = var.removal != "" || (can(regex("^[a-zA-Z](-?[a-zA-Z0-9])*$", var.cluster_id)) && length(var.cluster_id) <= 31)
    error_message = "Give a letter, then at most 30 letters, digits and hyphens; no hyphen at the end, and no two together."
  }
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "zones" {
  description = "Availability zones; empty: all zones of the region, three of them for functions and database."
  type        = list(string)
  default     = []
}

variable "cidr" {
  description = "IPv4 range of the network."
  type        = string
  default     = "10.60.0.0/16"
}

variable "zip" {
  description = "Path of the functions' zip file."
  type        = string
}

variable "keys_zip" {
  description = "Zip file without the cluster's configuration for the function outside the network; empty: the same file."
  type        = string
  default     = ""
}

variable "provision_zip" {
  description = "Zip file with Google Cloud's client for the function that rents machines; empty: the same file."
  type        = string
  default     = ""
}

variable "relay" {
  description = "Carry traffic to notebooks, shells, TensorBoards and task ports with a small machine behind CloudFront."
  type        = bool
  default     = false

  validation {
    condition     = !var.relay || var.relay_zip != ""
    error_message = "Give relay_zip, the zip of the relay."
  }
}

variable "relay_zip" {
  description = "Path of the relay's zip file."
  type        = string
  default     = ""
}

variable "google_credentials" {
  description = "Path in the zip file of a workload identity federation configuration, for pools on Google Cloud."
  type        = string
  default     = ""
}

variable "google_project" {
  description = "Default project of pools on Google Cloud."
  type        = string
  default     = ""
}

variable "runtime" {
  description = "Lambda runtime of the zip file."
  type        = string
  default     = "python3.11"

  validation {
    condition     = can(regex("^python3\\.[0-9]+$", var.runtime))
    error_message = "Give a runtime of Lambda like python3.11."
  }
}

variable "architecture" {
  description = "Processor of the zip file: x86_64 or arm64."
  type        = string
  default     = "x86_64"

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "Give x86_64 or arm64."
  }
}

variable "snap_start" {
  description = "Start the API from a snapshot (python3.12 and later)."
  type        = bool
  default     = false

  validation {
    condition     = !var.snap_start || try(tonumber(split(".", var.runtime)[1]), 0) >= 12
    error_message = "Lambda takes snapshots of python3.12 and later: run the command with such a Python, or leave snap_start out."
  }
}

variable "memory_mb" {
  description = "Memory by function (api, tick, provision, migrate, keys) in MB; default: 1024, for keys 512."
  type        = map(number)
  default     = {}
}

variable "endpoint" {
  description = "Address of the API: function_url or api_gateway."
  type        = string
  default     = "function_url"

  validation {
    condition     = !(var.relay && var.endpoint == "api_gateway")
    error_message = "With a relay, the cluster's address is the address of its distribution, which forwards to the function's URL: leave endpoint or relay out."
  }
}

variable "machine_external_ip" {
  description = "Give machines IPv4 addresses in public subnets; otherwise private subnets and a NAT gateway."
  type        = bool
  default     = true
}

variable "database" {
  description = "aurora (Serverless v2, pauses when idle) or rds (one instance that always runs)."
  type        = string
  default     = "aurora"
}

variable "database_max_capacity" {
  description = "Maximum Aurora capacity units; one has about 2 GiB of memory."
  type        = number
  default     = 4
}

variable "database_instance_class" {
  description = "Instance class of an rds database."
  type        = string
  default     = "db.t4g.micro"
}

variable "database_pause_after_s" {
  description = "Seconds without connections after which Aurora pauses (300 to 86400)."
  type        = number
  default     = 300
}

variable "database_snapshot" {
  description = "Snapshot to restore: name or ARN, PostgreSQL version and disk size. An existing database stays."
  type        = object({ name = string, version = string, disk_gb = number })
  default     = null
}

variable "secrets_key" {
  description = "Keys of stored secrets, separated by commas: the first encrypts, all decrypt; empty: a generated key."
  type        = string
  default     = ""
  sensitive   = true
}

variable "database_ca" {
  description = "Path of RDS's certificate bundle in the zip file; empty: the runtime's certificates."
  type        = string
  default     = "/var/task/rds-ca.pem"
}

variable "bucket" {
  description = "Bucket of code and checkpoints; empty: det-CLUSTER-REGION-ACCOUNT."
  type        = string
  default     = ""
}

variable "keep_data" {
  description = "Keep the bucket and a database snapshot when the cluster is removed."
  type        = bool
  default     = true
}

variable "removal" {
  description = "Set during a removal: ends the protection of the database, and names its last snapshot."
  type        = string
  default     = ""
}

variable "bucket_lifecycle" {
  description = "Delete replaced versions of objects after a month."
  type        = bool
  default     = true
}

variable "api_concurrency" {
  description = "Maximum concurrent API requests, each with one database connection; -1: no reservation."
  type        = number
  default     = 50
}

variable "log_retention_days" {
  description = "Retention of function logs in days."
  type        = number
  default     = 30
}

variable "initial_user_password" {
  description = "First password of the users admin and determined."
  type        = string
  sensitive   = true
}

variable "permissions_boundary" {
  description = "ARN of a permissions boundary for all roles."
  type        = string
  default     = null
}

variable "kms_key_arns" {
  description = "ARNs of your own KMS keys for machine volumes. AWS's own key needs no entry."
  type        = list(string)
  default     = []
}

variable "alarm_topic_arn" {
  description = "SNS topic for alarms about functions, schedules and the database."
  type        = string
  default     = null
}

variable "tags" {
  description = "Additional tags of all resources; machines get the tags of their pools."
  type        = map(string)
  default     = {}
}

variable "monthly_budget_usd" {
  description = "A monthly AWS budget in dollars; 0: none."
  type        = number
  default     = 0
}

variable "budget_emails" {
  description = "Recipients of AWS budget mails."
  type        = list(string)
  default     = []

  validation {
    condition     = var.monthly_budget_usd <= 0 || length(var.budget_emails) > 0
    error_message = "Give budget_emails: an AWS budget needs at least one address to notify."
  }
}

variable "endpoint_url" {
  description = "Another AWS address, for tests."
  type        = string
  default     = ""
}
