output "function_url" {
  description = "Address of the API: the address of the function, or of the gateway in front of it."
  value       = local.url
}

output "security_group_id" {
  description = "Security group of the functions."
  value       = aws_security_group.functions.id
}

output "functions" {
  description = "Names of the functions, by role."
  value       = { for name in local.functions : name => "${var.name}-${name}" }
}

output "schedules" {
  description = "Names of the schedules that the control plane enables and disables."
  value       = [for name in local.schedules : "${var.name}-${name}"]
}

output "versions" {
  description = "Newest versions of the functions that are called by requests and schedules, workers first."
  value = merge(
    { for name in local.schedules : name => aws_lambda_function.worker[name].version },
    { api = aws_lambda_function.api.version },
  )
}
