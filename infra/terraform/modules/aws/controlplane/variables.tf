variable "name" {
  description = "Prefix of the names of everything here."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster."
  type        = string
}

variable "zip" {
  description = "Path of deployment.zip, as `det deploy aws` makes it."
  type        = string
}

variable "keys_zip" {
  description = "Path of another zip for the function outside the network, without the cluster's configuration; empty for the same."
  type        = string
  default     = ""
}

variable "provision_zip" {
  description = "Path of another zip for the function that rents machines; empty for the same."
  type        = string
  default     = ""
}

variable "runtime" {
  description = "Lambda runtime whose Python the zip was compiled for, like python3.11."
  type        = string
}

variable "architecture" {
  description = "x86_64 or arm64, as the zip was made for."
  type        = string
}

variable "snap_start" {
  description = "Start the API's function from a snapshot (Python 3.12 and later)."
  type        = bool
}

variable "endpoint" {
  description = "Address of the API: function_url, or api_gateway."
  type        = string
  default     = "function_url"

  validation {
    condition     = contains(["function_url", "api_gateway"], var.endpoint)
    error_message = "Give function_url or api_gateway."
  }
}

variable "memory_mb" {
  description = "Memory of functions by their names (api, tick, provision, migrate, keys), where it is not the default."
  type        = map(number)
  default     = {}

  validation {
    condition     = alltrue([for name, size in var.memory_mb : contains(["api", "tick", "provision", "migrate", "keys"], name) && size >= 256 && size <= 10240])
    error_message = "Give MiB from 256 to 10240 for api, tick, provision, migrate or keys."
  }
}

variable "environment" {
  description = "Environment of all functions: DET_DB_URL, DET_OBJECTS, DET_CLUSTER_CONFIG and others."
  type        = map(string)
  sensitive   = true
}

variable "public_url" {
  description = "Address of the cluster, where that is not the API's function URL; empty for that."
  type        = string
  default     = ""
}

variable "front_secret" {
  description = "What a distribution before the API proves itself with; empty where there is none."
  type        = string
  default     = ""
  sensitive   = true
}

variable "relay_instance_id" {
  description = "Machine that carries traffic to tasks, which `provision` starts; empty for none."
  type        = string
  default     = ""
}

variable "has_relay" {
  description = "Whether there is such a machine, known before it exists."
  type        = bool
  default     = false
}

variable "api_concurrency" {
  description = "Most requests at once, bounded by the connections of the database; -1 for no bound, in accounts that let no function reserve any."
  type        = number
}

variable "log_retention_days" {
  description = "Retention of function logs in days."
  type        = number
}

variable "vpc_id" {
  description = "Network of the functions."
  type        = string
}

variable "subnet_ids" {
  description = "Private dual-stack subnets of the functions."
  type        = list(string)
}

variable "has_nat" {
  description = "Whether IPv4 leaves the subnets, too: AWS has an address for that in every region, and for IPv6 in most."
  type        = bool
  default     = false
}

variable "bucket_arn" {
  description = "Bucket of code and checkpoints."
  type        = string
}

variable "machine_role_arn" {
  description = "Role of rented machines: the only one that may be passed to them."
  type        = string
}

variable "kms_key_arns" {
  description = "Keys of KMS with which volumes of machines are encrypted, beside AWS's own."
  type        = list(string)
  default     = []
}

variable "permissions_boundary" {
  description = "ARN of a permission boundary for the roles, or null."
  type        = string
}

variable "alarm_topic_arn" {
  description = "SNS topic that is told when a function fails, is held back, needs nearly all its time, or is not started; or null."
  type        = string
}
