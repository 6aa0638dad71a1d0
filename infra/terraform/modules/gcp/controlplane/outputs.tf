output "url" {
  description = "Address of the API."
  value       = local.urls.api
  depends_on  = [google_cloud_run_v2_service.this]
}

output "accounts" {
  description = "Service accounts of the services, by role."
  value = merge(
    { for name, account in google_service_account.this : name => account.email if name != "scheduler" },
    { for account in google_service_account.relay : "relay" => account.email },
  )
}

output "services" {
  description = "Names of the services, by role."
  value = merge(
    { for name, service in google_cloud_run_v2_service.this : name => service.name },
    { for service in google_cloud_run_v2_service.relay : "relay" => service.name },
  )
}

output "schedules" {
  description = "Names of the schedules that the control plane pauses and resumes."
  value       = [for job in google_cloud_scheduler_job.this : job.name]
}

output "provision_account_id" {
  description = "Unique id of the account that rents machines."
  value       = google_service_account.this["provision"].unique_id
}
