output "url" {
  description = "Address of the cluster: DET_MASTER."
  value       = var.relay ? one(module.relay[*].url) : module.controlplane.function_url
}

output "relay" {
  description = "Machine that carries traffic to tasks while there are such; empty for none."
  value       = var.relay ? one(module.relay[*].instance_id) : ""
}

output "bucket" {
  description = "Bucket of contexts and checkpoints."
  value       = module.storage.bucket
}

output "functions" {
  description = "Names of the functions."
  value       = module.controlplane.functions
}

output "versions" {
  description = "Newest versions of the functions that requests and schedules reach."
  value       = module.controlplane.versions
}

output "schedules" {
  description = "Names of the schedules that the control plane switches."
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
  description = "Password that the built-in users got at the first start."
  value       = terraform_data.first_password.output
  sensitive   = true
}
