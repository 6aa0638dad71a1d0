output "url" {
  value = trimsuffix(aws_lambda_function_url.api.function_url, "/")
}

output "security_group_id" {
  value = aws_security_group.functions.id
}

output "functions" {
  value = { for name in local.functions : name => "${var.name}-${name}" }
}

output "schedules" {
  value = [for name in local.schedules : "${var.name}-${name}"]
}
