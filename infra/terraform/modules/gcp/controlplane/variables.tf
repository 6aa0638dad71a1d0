variable "name" {
  description = "Prefix of the names of everything here."
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
  description = "Memory of an instance of a service, like 1Gi."
  type        = string
}

variable "api_instances" {
  description = "Most instances of the API: each holds up to DET_DB_POOL_SIZE connections of the database."
  type        = number
}

variable "relay" {
  description = "Carry traffic to notebooks, shells, TensorBoards and ports of tasks; without, those tasks are refused."
  type        = bool
}

variable "environment" {
  description = "Environment of all services."
  type        = map(string)
}

variable "secret_environment" {
  description = "Environment of all services that comes from secrets: names of secrets by variable."
  type        = map(string)
}

variable "secret_files" {
  description = "Files from secrets, as /secrets/SECRET/FILE: names of files by secret."
  type        = map(string)
}

variable "secrets" {
  description = "Id and version of each secret, by its name."
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
  description = "Full name of the machines' service account: the only one that machines may be given."
  type        = string
}

variable "labels" {
  description = "Labels of the services."
  type        = map(string)
}
