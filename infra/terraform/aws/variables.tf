variable "cluster_id" {
  description = "Name of the cluster; part of the names of everything here."
  type        = string

  validation {
    # What part of a cluster another name came to have can be removed.
    condition     = var.removal != "" || (can(regex("^[a-zA-Z](-?[a-zA-Z0-9])*$", var.cluster_id)) && length(var.cluster_id) <= 31)
    error_message = "Give a letter, then at most 30 letters, digits and hyphens; no hyphen at the end, and no two together."
  }
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "zones" {
  description = "Availability zones; empty for those of the region, and for functions and database three of them."
  type        = list(string)
  default     = []
}

variable "cidr" {
  description = "IPv4 range of the network."
  type        = string
  default     = "10.60.0.0/16"
}

variable "zip" {
  description = "Path of the zip of the functions."
  type        = string
}

variable "keys_zip" {
  description = "Path of another zip for the function outside the network, without the cluster's configuration; empty for the same zip."
  type        = string
  default     = ""
}

variable "provision_zip" {
  description = "Path of another zip for the function that rents machines, with the client of Google Cloud; empty for the same zip."
  type        = string
  default     = ""
}

variable "relay" {
  description = "Carry traffic to notebooks, shells, TensorBoards and ports of tasks, by a machine that runs while there are such tasks, behind a distribution of CloudFront; without, they are refused."
  type        = bool
  default     = false

  validation {
    condition     = !var.relay || var.relay_zip != ""
    error_message = "Give relay_zip, the zip of the relay."
  }
}

variable "relay_zip" {
  description = "Path of the zip of the relay."
  type        = string
  default     = ""
}

variable "google_credentials" {
  description = "Path inside the zip of a configuration of workload identity federation, for pools on Google Cloud."
  type        = string
  default     = ""
}

variable "google_project" {
  description = "Project of pools on Google Cloud that name none."
  type        = string
  default     = ""
}

variable "runtime" {
  description = "Lambda runtime that the zip was made for."
  type        = string
  default     = "python3.11"

  validation {
    condition     = can(regex("^python3\\.[0-9]+$", var.runtime))
    error_message = "Give a runtime of Lambda like python3.11."
  }
}

variable "architecture" {
  description = "Processor that the zip was made for: x86_64 or arm64."
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
  description = "Memory of functions by their names (api, tick, provision, migrate, keys), where it is not the default: 1024, of keys 512."
  type        = map(number)
  default     = {}
}

variable "endpoint" {
  description = "Address of the API: function_url, or api_gateway for an HTTP API of API Gateway before the function, which gives up after 29 seconds."
  type        = string
  default     = "function_url"

  validation {
    condition     = !(var.relay && var.endpoint == "api_gateway")
    error_message = "With a relay the cluster's address is that of its distribution, which leads to the function's URL: leave endpoint or relay out."
  }
}

variable "machine_external_ip" {
  description = "Give machines IPv4 addresses of their own, in public subnets; otherwise they live in private ones and reach out by a NAT gateway, which costs money by the hour."
  type        = bool
  default     = true
}

variable "database" {
  description = "aurora (Serverless v2, pauses when idle) or rds (one instance that always runs)."
  type        = string
  default     = "aurora"
}

variable "database_max_capacity" {
  description = "Most Aurora capacity units; one is about 2 GiB of memory."
  type        = number
  default     = 4
}

variable "database_instance_class" {
  description = "Instance class of the database, for rds."
  type        = string
  default     = "db.t4g.micro"
}

variable "database_pause_after_s" {
  description = "Seconds without connections after which Aurora pauses (300 to 86400)."
  type        = number
  default     = 300
}

variable "database_snapshot" {
  description = "Snapshot from which the database begins: its name or ARN, its version of PostgreSQL and the size of its disk; null for an empty one. A database that is there stays."
  type        = object({ name = string, version = string, disk_gb = number })
  default     = null
}

variable "secrets_key" {
  description = "Keys of the secrets in the database, separated by commas: the first encrypts, all decrypt; empty for one that is made. A snapshot needs those of its cluster."
  type        = string
  default     = ""
  sensitive   = true
}

variable "database_ca" {
  description = "Path of the certificate bundle of RDS inside the zip; empty for what the runtime trusts."
  type        = string
  default     = "/var/task/rds-ca.pem"
}

variable "bucket" {
  description = "Name of the bucket of contexts and checkpoints; empty for det-CLUSTER-REGION-ACCOUNT."
  type        = string
  default     = ""
}

variable "keep_data" {
  description = "Keep the bucket's content and a snapshot of the database when the cluster is removed."
  type        = bool
  default     = true
}

variable "removal" {
  description = "Set while the cluster is removed: ends the protection of the database, and names its last snapshot."
  type        = string
  default     = ""
}

variable "bucket_lifecycle" {
  description = "Delete replaced versions of objects after a month."
  type        = bool
  default     = true
}

variable "api_concurrency" {
  description = "Most API requests at once: each holds one connection of the database; -1 for no bound, in accounts that let no function reserve any."
  type        = number
  default     = 50
}

variable "log_retention_days" {
  description = "Days that logs of functions are kept."
  type        = number
  default     = 30
}

variable "initial_user_password" {
  description = "Password of the built-in users admin and determined at the first start."
  type        = string
  sensitive   = true
}

variable "permissions_boundary" {
  description = "ARN of a permission boundary for all roles."
  type        = string
  default     = null
}

variable "kms_key_arns" {
  description = "ARNs of your own keys in KMS with which volumes of machines are encrypted: the account's default key for EBS, and what pools name by root_volume_kms_key_id. AWS's own key needs none."
  type        = list(string)
  default     = []
}

variable "alarm_topic_arn" {
  description = "SNS topic that is told when a function fails or is held back, a schedule starts nothing, or the database is full."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of all that is made here, beside those of the cluster; machines get those of their pools."
  type        = map(string)
  default     = {}
}

variable "monthly_budget_usd" {
  description = "An AWS budget beside those of the cluster; 0 for none."
  type        = number
  default     = 0
}

variable "budget_emails" {
  description = "Who is told when the AWS budget is nearly spent."
  type        = list(string)
  default     = []

  validation {
    condition     = var.monthly_budget_usd <= 0 || length(var.budget_emails) > 0
    error_message = "Give budget_emails: AWS takes no budget that tells nobody."
  }
}

variable "endpoint_url" {
  description = "Address of an AWS that is not Amazon's, for trials."
  type        = string
  default     = ""
}
