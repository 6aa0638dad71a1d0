# The bucket, the database, the network, the machines' rights and the budget.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-west-1" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\": \"2012-10-17\", \"Statement\": []}" }
  }

  mock_resource "aws_vpc" {
    defaults = { ipv6_cidr_block = "2001:db8:1234::/56" }
  }

  mock_resource "aws_egress_only_internet_gateway" {
    defaults = { id = "eigw-1" }
  }
}

variables {
  name       = "det-lab"
  cluster_id = "lab"
}

run "bucket" {
  module {
    source = "../modules/aws/storage"
  }

  variables {
    bucket          = "det-lab"
    keep            = true
    lifecycle_rules = true
  }

  assert {
    condition     = alltrue([aws_s3_bucket_public_access_block.this.block_public_acls, aws_s3_bucket_public_access_block.this.block_public_policy, aws_s3_bucket_public_access_block.this.ignore_public_acls, aws_s3_bucket_public_access_block.this.restrict_public_buckets])
    error_message = "The bucket may be opened to the public."
  }

  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).sse_algorithm == "AES256" && aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled"
    error_message = "Checkpoints are not encrypted, or have no versions."
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[0].noncurrent_version_expiration[0].noncurrent_days == 30 && aws_s3_bucket_lifecycle_configuration.this[0].rule[0].abort_incomplete_multipart_upload[0].days_after_initiation == 7
    error_message = "Replaced versions and incomplete uploads are never deleted."
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[0].expiration[0].expired_object_delete_marker
    error_message = "Markers of deleted checkpoints are never deleted."
  }

  assert {
    condition     = !aws_s3_bucket.this.force_destroy
    error_message = "Terraform may delete a bucket with content although `keep` is set."
  }
}

run "database_that_pauses" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "aurora"
    max_capacity             = 4
    instance_class           = ""
    pause_after_s            = 300
    vpc_id                   = "vpc-1"
    subnet_ids               = ["subnet-1", "subnet-2"]
    client_security_group_id = "sg-1"
    keep                     = true
    removal                  = ""
  }

  assert {
    condition     = aws_rds_cluster.this[0].serverlessv2_scaling_configuration[0].min_capacity == 0 && aws_rds_cluster.this[0].serverlessv2_scaling_configuration[0].seconds_until_auto_pause == 300
    error_message = "An idle database costs money by the hour."
  }

  assert {
    condition     = one([for p in aws_rds_cluster_parameter_group.this[0].parameter : p.value if p.name == "idle_session_timeout"]) == "60000"
    error_message = "A frozen function keeps the database awake."
  }

  assert {
    condition     = aws_rds_cluster.this[0].apply_immediately && aws_rds_cluster_instance.this[0].apply_immediately
    error_message = "A larger capacity is applied only in the next maintenance window."
  }

  assert {
    condition     = aws_rds_cluster.this[0].engine_version == "16" && aws_rds_cluster_instance.this[0].engine_version != "16"
    error_message = "The stack asks for a minor version that AWS will remove, or the instance has another version than its cluster."
  }

  assert {
    condition     = aws_rds_cluster.this[0].storage_encrypted && aws_rds_cluster.this[0].deletion_protection && !aws_rds_cluster.this[0].skip_final_snapshot
    error_message = "The database is not encrypted, or can be deleted by accident."
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.functions.referenced_security_group_id == "sg-1" && aws_vpc_security_group_ingress_rule.functions.from_port == 5432
    error_message = "Clients other than the functions can reach the database."
  }
}

run "database_of_removed_cluster" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "rds"
    max_capacity             = 4
    instance_class           = "db.t4g.micro"
    pause_after_s            = 300
    vpc_id                   = "vpc-1"
    subnet_ids               = ["subnet-1", "subnet-2"]
    client_security_group_id = "sg-1"
    keep                     = true
    removal                  = "20261124"
  }

  assert {
    condition     = !aws_db_instance.this[0].deletion_protection && aws_db_instance.this[0].final_snapshot_identifier == "det-lab-final20261124"
    error_message = "The database is protected, or would leave no snapshot."
  }

  assert {
    condition     = aws_db_instance.this[0].apply_immediately
    error_message = "A larger instance class is applied only in the next maintenance window."
  }

  assert {
    condition     = aws_db_instance.this[0].storage_encrypted && !aws_db_instance.this[0].publicly_accessible
    error_message = "The database is not encrypted, or has a public address."
  }
}

run "database_from_snapshot" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "aurora"
    max_capacity             = 4
    instance_class           = "db.t4g.micro"
    pause_after_s            = 300
    vpc_id                   = "vpc-1"
    subnet_ids               = ["subnet-1", "subnet-2"]
    client_security_group_id = "sg-1"
    keep                     = true
    removal                  = ""
    snapshot                 = { name = "det-lab-final1", version = "16.8", disk_gb = 1 }
  }

  assert {
    condition     = aws_rds_cluster.this[0].snapshot_identifier == "det-lab-final1" && aws_rds_cluster.this[0].engine_version == "16.8"
    error_message = "The database begins empty, or has another version than the snapshot."
  }

  assert {
    condition     = aws_rds_cluster.this[0].master_password == aws_secretsmanager_secret_version.this.secret_string
    error_message = "The restored database keeps its old, unknown password."
  }
}

run "new_snapshot_does_not_replace_database" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "aurora"
    max_capacity             = 4
    instance_class           = "db.t4g.micro"
    pause_after_s            = 300
    vpc_id                   = "vpc-1"
    subnet_ids               = ["subnet-1", "subnet-2"]
    client_security_group_id = "sg-1"
    keep                     = true
    removal                  = ""
    snapshot                 = { name = "det-lab-final2", version = "16.8", disk_gb = 1 }
  }

  assert {
    condition     = aws_rds_cluster.this[0].snapshot_identifier == "det-lab-final1"
    error_message = "A snapshot would replace a database that has data."
  }
}

run "instance_from_snapshot" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "rds"
    max_capacity             = 4
    instance_class           = "db.t4g.micro"
    pause_after_s            = 300
    vpc_id                   = "vpc-1"
    subnet_ids               = ["subnet-1", "subnet-2"]
    client_security_group_id = "sg-1"
    keep                     = true
    removal                  = ""
    snapshot                 = { name = "det-lab-final1", version = "16.8", disk_gb = 45 }
  }

  assert {
    condition     = aws_db_instance.this[0].snapshot_identifier == "det-lab-final1" && aws_db_instance.this[0].engine_version == "16.8"
    error_message = "The database begins empty, or has another version than the snapshot."
  }

  assert {
    condition     = aws_db_instance.this[0].allocated_storage == 45
    error_message = "The disk is smaller than the snapshot's, which AWS refuses."
  }
}

run "new_snapshot_does_not_replace_instance" {
  module {
    source = "../modules/aws/database"
  }

  variables {
    kind                     = "rds"
    max_capacity             = 4
    instance_class           = "db.t4g.micro"
    pause_after_s            = 300
    vpc_id                   = "vpc-1"
    subnet_ids               = ["subnet-1", "subnet-2"]
    client_security_group_id = "sg-1"
    keep                     = true
    removal                  = ""
    snapshot                 = { name = "det-lab-final2", version = "16.8", disk_gb = 45 }
  }

  assert {
    condition     = aws_db_instance.this[0].snapshot_identifier == "det-lab-final1"
    error_message = "A snapshot would replace a database that has data."
  }
}

run "network" {
  module {
    source = "../modules/aws/network"
  }

  variables {
    cidr           = "10.60.0.0/16"
    zones          = { "eu-west-1a" = 0, "eu-west-1b" = 1, "eu-west-1e" = 4 }
    function_zones = ["eu-west-1a", "eu-west-1b"]
  }

  assert {
    condition     = { for zone, subnet in aws_subnet.private : zone => subnet.cidr_block } == { "eu-west-1a" = "10.60.0.0/20", "eu-west-1b" = "10.60.16.0/20" }
    error_message = "The functions have unexpected subnets."
  }

  assert {
    condition     = { for zone, subnet in aws_subnet.public : zone => subnet.cidr_block } == { "eu-west-1a" = "10.60.128.0/20", "eu-west-1b" = "10.60.144.0/20", "eu-west-1e" = "10.60.192.0/20" }
    error_message = "A zone has no subnet for machines, or an existing subnet would be replaced."
  }

  assert {
    condition     = aws_route.private_ipv6.destination_ipv6_cidr_block == "::/0" && aws_route.private_ipv6.egress_only_gateway_id == "eigw-1" && alltrue([for subnet in aws_subnet.private : subnet.assign_ipv6_address_on_creation])
    error_message = "Functions cannot reach AWS, or can be reached from outside."
  }

  assert {
    condition     = aws_vpc_endpoint.s3.vpc_endpoint_type == "Gateway" && aws_vpc_endpoint.s3.service_name == "com.amazonaws.eu-west-1.s3" && contains(aws_vpc_endpoint.s3.route_table_ids, aws_route_table.private.id)
    error_message = "Functions cannot reach the bucket."
  }

  assert {
    condition     = length(aws_default_security_group.this.ingress) == 0 && length(aws_default_security_group.this.egress) == 0
    error_message = "Resources without a security group of their own are open."
  }
}

run "machines" {
  module {
    source = "../modules/aws/machines"
  }

  variables {
    vpc_id               = "vpc-1"
    bucket_arn           = "arn:aws:s3:::det-lab"
    permissions_boundary = null
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.each_other.referenced_security_group_id == aws_security_group.this.id && aws_vpc_security_group_ingress_rule.each_other.cidr_ipv4 == null
    error_message = "Clients other than machines of the cluster can reach machines."
  }

  assert {
    condition     = alltrue([for s in data.aws_iam_policy_document.storage.statement : alltrue([for action in s.actions : startswith(action, "s3:") && !endswith(action, "*")])]) && alltrue([for s in data.aws_iam_policy_document.storage.statement : alltrue([for r in s.resources : startswith(r, "arn:aws:s3:::det-lab")])])
    error_message = "Machines have rights beyond the cluster's bucket."
  }
}

run "budget" {
  module {
    source = "../modules/aws/budget"
  }

  variables {
    limit_usd = 250
    emails    = ["ada@example.com"]
  }

  assert {
    condition     = one(aws_budgets_budget.this.cost_filter).values == tolist(["user:determined-cluster$lab"])
    error_message = "The budget does not count the costs of this cluster."
  }

  assert {
    condition     = toset([for n in aws_budgets_budget.this.notification : n.threshold]) == toset([80, 100]) && alltrue([for n in aws_budgets_budget.this.notification : n.subscriber_email_addresses == toset(["ada@example.com"])])
    error_message = "The budget has wrong thresholds, or does not notify the given addresses."
  }
}
