# The address of the API: the function's own URL, or an HTTP API of API Gateway in front of it.

locals {
  has_gateway = var.endpoint == "api_gateway"
  url         = local.has_gateway ? aws_apigatewayv2_api.this[0].api_endpoint : trimsuffix(aws_lambda_function_url.api[0].function_url, "/")
}

# Agents, people and CI call this URL. Every request is authenticated by the application.
resource "aws_lambda_function_url" "api" {
  count              = local.has_gateway ? 0 : 1
  function_name      = aws_lambda_function.api.function_name
  qualifier          = aws_lambda_alias.api.name
  authorization_type = "NONE"
}

resource "aws_lambda_permission" "url" {
  count                  = local.has_gateway ? 0 : 1
  statement_id           = "url"
  action                 = "lambda:InvokeFunctionUrl"
  function_name          = aws_lambda_function.api.function_name
  qualifier              = aws_lambda_alias.api.name
  principal              = "*"
  function_url_auth_type = "NONE"
}

# Since October 2025 AWS asks for lambda:InvokeFunction as well. Without a condition it would let any AWS account invoke the
# function directly, with an event that makes up the caller's address. The provider narrows it to calls by the URL since
# 6.29 (invoked_via_function_url), but the stack uses version 5. So `det deploy` gives this right. Without `det deploy`,
# run this command once after `terraform apply`:
#   aws lambda add-permission --function-name det-CLUSTER-api --qualifier live --statement-id url-only \
#     --action lambda:InvokeFunction --principal '*' --invoked-via-function-url

resource "aws_apigatewayv2_api" "this" {
  count         = local.has_gateway ? 1 : 0
  name          = var.name
  description   = "API of the Determined cluster ${var.cluster_id}"
  protocol_type = "HTTP"
}

# The gateway waits up to 29 seconds, the maximum. It answers longer requests itself.
resource "aws_apigatewayv2_integration" "this" {
  count                  = local.has_gateway ? 1 : 0
  api_id                 = aws_apigatewayv2_api.this[0].id
  integration_type       = "AWS_PROXY"
  integration_method     = "POST"
  integration_uri        = aws_lambda_alias.api.invoke_arn
  payload_format_version = "2.0"
  timeout_milliseconds   = (local.api_timeout_s - 1) * 1000
}

resource "aws_apigatewayv2_route" "this" {
  count              = local.has_gateway ? 1 : 0
  api_id             = aws_apigatewayv2_api.this[0].id
  route_key          = "$default"
  target             = "integrations/${aws_apigatewayv2_integration.this[0].id}"
  authorization_type = "NONE"
}

resource "aws_apigatewayv2_stage" "this" {
  count       = local.has_gateway ? 1 : 0
  api_id      = aws_apigatewayv2_api.this[0].id
  name        = "$default"
  auto_deploy = true
}

resource "aws_lambda_permission" "gateway" {
  count         = local.has_gateway ? 1 : 0
  statement_id  = "gateway"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.api.function_name
  qualifier     = aws_lambda_alias.api.name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.this[0].execution_arn}/*"
}
