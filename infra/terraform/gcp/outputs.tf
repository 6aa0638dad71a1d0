output "url" {
  description = "Address of the cluster: DET_MASTER."
  value       = module.controlplane.url
}

output "bucket" {
  description = "Bucket of code and checkpoints."
  value       = module.storage.bucket
}

output "services" {
  description = "Names of the Cloud Run services."
  value       = module.controlplane.services
}

output "schedules" {
  description = "Names of the Cloud Scheduler jobs that the control plane pauses and resumes."
  value       = module.controlplane.schedules
}

output "machine_service_account" {
  description = "Service account of rented machines."
  value       = module.machines.email
}

output "machine_subnetwork" {
  description = "Subnet of rented machines."
  value       = local.machine_subnetwork_id
}

output "repository" {
  description = "Repository for images of the control plane."
  value       = module.images.repository
}

output "initial_user_password" {
  description = "First password of the built-in users."
  value       = terraform_data.first_password.output
  sensitive   = true
}

output "provision_account_id" {
  description = "Unique id of the account that rents machines, for the trust policy of an AWS role."
  value       = module.controlplane.provision_account_id
}
