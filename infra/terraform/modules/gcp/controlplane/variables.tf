variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster."
  type        = string
}

variable "region" {
  description = "Region of the services."
  type        = string
}

variable "image" {
  description = "Image of the control plane, with its digest."
  type        = string
}

variable "memory" {
  description = "Memory of each instance of a service, like 1Gi."
  type        = string
}

variable "api_instances" {
  description = "Maximum number of instances of the API. Each uses up to DET_DB_POOL_SIZE connections of the database."
  type        = number
}

variable "relay" {
  description = "Carry traffic to notebooks, shells, TensorBoards and ports of tasks. Without this, the cluster refuses such tasks."
  type        = bool
}

variable "environment" {
  description = "Environment variables of all services."
  type        = map(string)
}

variable "secret_environment" {
  description = "Environment variables of all services with values from secrets: the names of secrets, by variable."
  type        = map(string)
}

variable "secret_files" {
  description = "Files with values from secrets, at /secrets/SECRET/FILE: the names of files, by secret."
  type        = map(string)
}

variable "secrets" {
  description = "Id and version of each secret, by name."
  type        = map(object({ secret = string, version = string }))
}

variable "network_id" {
  description = "Network of the services."
  type        = string
}

variable "subnetwork_id" {
  description = "Subnet of the services."
  type        = string
}

variable "bucket" {
  description = "Bucket of code and checkpoints."
  type        = string
}

variable "machine_account_name" {
  description = "Full name of the machines' service account: the only account that may be attached to machines."
  type        = string
}

variable "labels" {
  description = "Labels of the services."
  type        = map(string)
}
