variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster."
  type        = string
}

variable "zip" {
  description = "Path of deployment.zip, which `det deploy aws` builds."
  type        = string
}

variable "keys_zip" {
  description = "Path of a separate zip for the function outside the network, without the cluster's configuration; empty for the same zip."
  type        = string
  default     = ""
}

variable "provision_zip" {
  description = "Path of a separate zip for the function that rents machines; empty for the same zip."
  type        = string
  default     = ""
}

variable "runtime" {
  description = "Lambda runtime for which the zip was built, like python3.11."
  type        = string
}

variable "architecture" {
  description = "Processor architecture for which the zip was built: x86_64 or arm64."
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
  description = "Memory of functions in MiB, by name (api, tick, provision, migrate, keys), instead of the default."
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
  description = "Address of the cluster, if it is not the URL of the API's function; otherwise empty."
  type        = string
  default     = ""
}

variable "front_secret" {
  description = "Secret that a distribution in front of the API sends with each request; empty without a distribution."
  type        = string
  default     = ""
  sensitive   = true
}

variable "relay_instance_id" {
  description = "Machine that carries traffic to tasks, which `provision` starts; empty without a relay."
  type        = string
  default     = ""
}

variable "has_relay" {
  description = "Set with a relay. Unlike the machine's id, this is known before the machine exists."
  type        = bool
  default     = false
}

variable "api_concurrency" {
  description = "Maximum number of concurrent requests, limited by the connections of the database. -1 sets no limit, for accounts that do not allow functions to reserve concurrency."
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
  description = "Set if IPv4 can leave the subnets. AWS has IPv4 addresses in every region, but IPv6 addresses only in most."
  type        = bool
  default     = false
}

variable "bucket_arn" {
  description = "Bucket of code and checkpoints."
  type        = string
}

variable "machine_role_arn" {
  description = "Role of rented machines: the only role that functions may pass to machines."
  type        = string
}

variable "kms_key_arns" {
  description = "ARNs of customer-managed KMS keys that encrypt volumes of machines."
  type        = list(string)
  default     = []
}

variable "permissions_boundary" {
  description = "ARN of a permission boundary for the roles, or null."
  type        = string
}

variable "alarm_topic_arn" {
  description = "SNS topic to notify when a function fails, is throttled, needs nearly all its time, or is not started; or null."
  type        = string
}
