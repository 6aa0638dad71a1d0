output "url" {
  description = "Address of the cluster: DET_MASTER."
  value       = var.relay ? one(module.relay[*].url) : module.controlplane.function_url
}

output "relay" {
  description = "Machine of the relay; empty: none."
  value       = var.relay ? one(module.relay[*].instance_id) : ""
}

output "bucket" {
  description = "Bucket of code and checkpoints."
  value       = module.storage.bucket
}

output "functions" {
  description = "Names of the functions."
  value       = module.controlplane.functions
}

output "versions" {
  description = "Newest versions of the functions for requests and schedules."
  value       = module.controlplane.versions
}

output "schedules" {
  description = "Names of the schedules that the control plane enables and disables."
  value       = module.controlplane.schedules
}

output "instance_profile_arn" {
  description = "Instance profile of rented machines."
  value       = module.machines.instance_profile_arn
}

output "machine_subnet_ids" {
  description = "Subnets of rented machines."
  value       = local.machine_subnet_ids
}

output "machine_security_group_id" {
  description = "Security group of rented machines."
  value       = module.machines.security_group_id
}

output "initial_user_password" {
  description = "First password of the built-in users."
  value       = terraform_data.first_password.output
  sensitive   = true
}
