# The machine that carries traffic to tasks, and the distribution before it.

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

run "the_machine" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = aws_instance.this.tags["determined-cluster"] == "lab/relay"
    error_message = "The cluster would take the relay for a machine of its own, and end it."
  }

  assert {
    condition     = aws_instance.this.instance_initiated_shutdown_behavior == "stop" && strcontains(aws_instance.this.user_data, "SuccessAction=poweroff")
    error_message = "An idle relay goes on costing money, or is gone for ever."
  }

  assert {
    condition     = one(aws_instance.this.root_block_device).volume_size <= 5
    error_message = "A stopped relay costs more than an idle cluster may."
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.cloudfront.prefix_list_id == "pl-1" && aws_vpc_security_group_ingress_rule.cloudfront.from_port == 8080
    error_message = "Others than CloudFront reach the relay."
  }

  assert {
    condition     = join(",", flatten(data.aws_iam_policy_document.this.statement[*].actions)) == "lambda:GetFunction" && endswith(one(one(data.aws_iam_policy_document.this.statement).resources), ":function:det-lab-relay")
    error_message = "The relay may do more than read its own program and settings."
  }

  assert {
    condition     = aws_lambda_function.this.environment[0].variables["DET_PUBLIC_URL"] == "https://d123.cloudfront.net"
    error_message = "The relay takes another address for the cluster's."
  }

  assert {
    condition     = aws_lambda_function.this.environment[0].variables["DET_RELAY_FUNCTION"] == aws_lambda_function.this.function_name
    error_message = "The relay does not know where a newer program would be."
  }
}

run "it_calls_aws_by_ipv6" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = strcontains(local.user_data, "AWS_USE_DUALSTACK_ENDPOINT=true")
    error_message = "From a subnet that IPv6 alone leaves, the relay would not get its program."
  }
}

run "with_a_gateway_it_calls_aws_where_there_are_no_dual_stack_endpoints" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    has_nat = true
  }

  assert {
    condition     = strcontains(local.user_data, "AWS_USE_DUALSTACK_ENDPOINT=false")
    error_message = "In a region without dual-stack endpoints the relay would not get its program."
  }
}

run "the_distribution" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = { for behavior in aws_cloudfront_distribution.this.ordered_cache_behavior : behavior.path_pattern => behavior.target_origin_id } == { "/det/-/*" = "api", "/proxy/*" = "relay", "/agents/v1/relay" = "relay" }
    error_message = "Requests go elsewhere."
  }

  assert {
    condition     = one(aws_cloudfront_distribution.this.default_cache_behavior).cache_policy_id == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad" && alltrue([for behavior in aws_cloudfront_distribution.this.ordered_cache_behavior : behavior.cache_policy_id == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad" if behavior.path_pattern != "/det/-/*"])
    error_message = "Answers of one caller could be given to another."
  }

  assert {
    condition     = alltrue([for response in aws_cloudfront_distribution.this.custom_error_response : response.error_caching_min_ttl == 0]) && length(aws_cloudfront_distribution.this.custom_error_response) == 11
    error_message = "Refusals are kept."
  }

  assert {
    condition     = join(",", sort(flatten(regexall("headers\\['([a-z-]+)'\\] =", aws_cloudfront_function.this.code)))) == "x-det-viewer,x-forwarded-host"
    error_message = "The function sets a header that CloudFront lets none set, and answers 502 for."
  }
}

run "its_processor_costs_nothing_beside_the_machine" {
  module {
    source = "../modules/aws/relay"
  }

  assert {
    condition     = one(aws_instance.this.credit_specification).cpu_credits == "standard"
    error_message = "A busy relay costs more than the hour of its machine."
  }
}

# The runs above have created the relay, in one zone and for one architecture.
run "a_change_that_keeps_the_machine_keeps_the_origin" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    environment = { DET_DB_URL = "postgresql://u:p@another/d" }
  }

  assert {
    condition     = aws_cloudfront_vpc_origin.this.id == run.the_machine.origin_id && aws_instance.this.id == run.the_machine.instance_id
    error_message = "AWS refuses to change an origin that is in use."
  }
}

run "other_tags_have_a_machine_and_an_origin_of_their_own" {
  module {
    source = "../modules/aws/relay"
  }

  override_data {
    target = data.aws_default_tags.current
    values = { tags = { team = "vision" } }
  }

  assert {
    condition     = aws_instance.this.id != run.the_machine.instance_id && aws_cloudfront_vpc_origin.this.id != run.the_machine.origin_id
    error_message = "AWS refuses to change an origin that is in use."
  }
}

run "another_zone_has_a_machine_and_an_origin_of_its_own" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    zone      = "eu-west-1b"
    subnet_id = "subnet-2"
  }

  assert {
    condition     = aws_instance.this.id != run.the_machine.instance_id && aws_cloudfront_vpc_origin.this.id != run.the_machine.origin_id
    error_message = "AWS refuses to change an origin that is in use."
  }

  assert {
    condition     = strcontains(one(aws_cloudfront_vpc_origin.this.vpc_origin_endpoint_config).name, aws_instance.this.id)
    error_message = "The new origin has the name of the one that it replaces."
  }
}

run "another_processor_has_an_image_of_its_own" {
  module {
    source = "../modules/aws/relay"
  }

  variables {
    zone         = "eu-west-1b"
    subnet_id    = "subnet-2"
    architecture = "arm64"
  }

  assert {
    condition     = aws_instance.this.id != run.another_zone_has_a_machine_and_an_origin_of_its_own.instance_id && aws_cloudfront_vpc_origin.this.id != run.another_zone_has_a_machine_and_an_origin_of_its_own.origin_id
    error_message = "The image of the old processor does not start on the new one."
  }
}
