# The machine that carries traffic to tasks, and the distribution in front of it.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }

  mock_data "aws_region" {
    defaults = { name = "eu-west-1" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\": \"2012-10-17\", \"Statement\": []}" }
  }

  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "ami-1" }
  }

  mock_data "aws_ec2_managed_prefix_list" {
    defaults = { id = "pl-1" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/det" }
  }

  mock_resource "aws_instance" {
    defaults = { arn = "arn:aws:ec2:eu-west-1:123456789012:instance/i-1", private_dns = "ip-10-60-0-9.eu-west-1.compute.internal" }
  }

  mock_resource "aws_cloudfront_function" {
    defaults = { arn = "arn:aws:cloudfront::123456789012:function/det-lab-relay" }
  }

  mock_resource "aws_cloudfront_distribution" {
    defaults = { domain_name = "d123.cloudfront.net" }
  }
}

variables {
  name                       = "det-lab"
  cluster_id                 = "lab"
  zip                        = "versions.tf"
  runtime                    = "python3.11"
  architecture               = "x86_64"
  environment                = { DET_DB_URL = "postgresql://u:p@h/d" }
  api_url                    = "https://abc.lambda-url.eu-west-1.on.aws"
  front_secret               = "secret"
  vpc_id                     = "vpc-1"
  subnet_id                  = "subnet-1"
  zone                       = "eu-west-1a"
  has_nat                    = false
  database_security_group_id = "sg-1"
  permissions_boundary       = null
}

run "machine" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = aws_instance.this.tags["determined-cluster"] == "lab/relay"
    error_message = "The cluster would treat the relay as a rented machine, and terminate it."
  }

  assert {
    condition     = aws_instance.this.instance_initiated_shutdown_behavior == "stop" && strcontains(aws_instance.this.user_data, "SuccessAction=poweroff")
    error_message = "An idle relay would continue to cost money, or would be terminated instead of stopped."
  }

  assert {
    condition     = one(aws_instance.this.root_block_device).volume_size <= 5
    error_message = "The disk of a stopped relay costs too much."
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.cloudfront.prefix_list_id == "pl-1" && aws_vpc_security_group_ingress_rule.cloudfront.from_port == 8080
    error_message = "Clients other than CloudFront can reach the relay."
  }

  assert {
    condition     = join(",", flatten(data.aws_iam_policy_document.this.statement[*].actions)) == "lambda:GetFunction" && endswith(one(one(data.aws_iam_policy_document.this.statement).resources), ":function:det-lab-relay")
    error_message = "The relay has rights beyond reading its own program and settings."
  }

  assert {
    condition     = aws_lambda_function.this.environment[0].variables["DET_PUBLIC_URL"] == "https://d123.cloudfront.net"
    error_message = "The relay uses an address that is not the cluster's."
  }

  assert {
    condition     = aws_lambda_function.this.environment[0].variables["DET_RELAY_FUNCTION"] == aws_lambda_function.this.function_name
    error_message = "The relay does not know where to look for a newer program."
  }
}

run "calls_aws_by_ipv6" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = strcontains(local.user_data, "AWS_USE_DUALSTACK_ENDPOINT=true")
    error_message = "The relay could not download its program from a subnet that only IPv6 leaves."
  }
}

run "calls_aws_by_ipv4_with_nat" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    has_nat = true
  }

  assert {
    condition     = strcontains(local.user_data, "AWS_USE_DUALSTACK_ENDPOINT=false")
    error_message = "The relay could not download its program in a region without dual-stack endpoints."
  }
}

run "distribution" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = { for behavior in aws_cloudfront_distribution.this.ordered_cache_behavior : behavior.path_pattern => behavior.target_origin_id } == { "/det/-/*" = "api", "/proxy/*" = "relay", "/agents/v1/relay" = "relay" }
    error_message = "The distribution sends requests to the wrong origin."
  }

  assert {
    condition     = one(aws_cloudfront_distribution.this.default_cache_behavior).cache_policy_id == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad" && alltrue([for behavior in aws_cloudfront_distribution.this.ordered_cache_behavior : behavior.cache_policy_id == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad" if behavior.path_pattern != "/det/-/*"])
    error_message = "Responses to one caller could be sent to another."
  }

  assert {
    condition     = alltrue([for response in aws_cloudfront_distribution.this.custom_error_response : response.error_caching_min_ttl == 0]) && length(aws_cloudfront_distribution.this.custom_error_response) == 11
    error_message = "The distribution caches error responses."
  }

  assert {
    condition     = join(",", sort(flatten(regexall("headers\\['([a-z-]+)'\\] =", aws_cloudfront_function.this.code)))) == "x-det-viewer,x-forwarded-host"
    error_message = "The function sets a header that CloudFront disallows. CloudFront would answer 502."
  }
}

run "processor_credits_cost_nothing" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = one(aws_instance.this.credit_specification).cpu_credits == "standard"
    error_message = "A busy relay costs more than the hourly price of its machine."
  }
}

# The runs above created the relay, in one zone and for one architecture.
run "same_machine_keeps_its_origin" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    environment = { DET_DB_URL = "postgresql://u:p@another/d" }
  }

  assert {
    condition     = aws_cloudfront_vpc_origin.this.id == run.machine.origin_id && aws_instance.this.id == run.machine.instance_id
    error_message = "AWS refuses to change an origin that is in use."
  }
}

run "new_tags_create_new_machine_and_origin" {
  module {
    source = "../modules/aws/relay"
  }

  override_data {
    target = data.aws_default_tags.current
    values = { tags = { team = "vision" } }
  }

  assert {
    condition     = aws_instance.this.id != run.machine.instance_id && aws_cloudfront_vpc_origin.this.id != run.machine.origin_id
    error_message = "AWS refuses to change an origin that is in use."
  }
}

run "new_zone_creates_new_machine_and_origin" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    zone      = "eu-west-1b"
    subnet_id = "subnet-2"
  }

  assert {
    condition     = aws_instance.this.id != run.machine.instance_id && aws_cloudfront_vpc_origin.this.id != run.machine.origin_id
    error_message = "AWS refuses to change an origin that is in use."
  }

  assert {
    condition     = strcontains(one(aws_cloudfront_vpc_origin.this.vpc_origin_endpoint_config).name, aws_instance.this.id)
    error_message = "The new origin has the same name as the origin that it replaces."
  }
}

run "new_architecture_uses_its_own_image" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    zone         = "eu-west-1b"
    subnet_id    = "subnet-2"
    architecture = "arm64"
  }

  assert {
    condition     = aws_instance.this.id != run.new_zone_creates_new_machine_and_origin.instance_id && aws_cloudfront_vpc_origin.this.id != run.new_zone_creates_new_machine_and_origin.origin_id
    error_message = "The new machine has an image for the old architecture, which cannot start on the new one."
  }
}
