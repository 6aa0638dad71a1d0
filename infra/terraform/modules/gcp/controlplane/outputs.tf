output "url" {
  value      = local.urls.api
  depends_on = [google_cloud_run_v2_service.this]
}

output "accounts" {
  value = { for name, account in google_service_account.this : name => account.email if name != "scheduler" }
}

output "services" {
  value = { for name, service in google_cloud_run_v2_service.this : name => service.name }
}

output "schedules" {
  value = [for job in google_cloud_scheduler_job.this : job.name]
}
