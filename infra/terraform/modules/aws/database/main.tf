# PostgreSQL: Aurora Serverless v2, which pauses without connections, or one RDS instance. Changes
# apply immediately and not in a maintenance window.

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "kind" {
  description = "aurora (Serverless v2, pauses when idle) or rds (one instance that always runs)."
  type        = string

  validation {
    condition     = contains(["aurora", "rds"], var.kind)
    error_message = "Give aurora or rds."
  }
}

variable "max_capacity" {
  description = "Maximum Aurora capacity units."
  type        = number
}

variable "instance_class" {
  description = "Class of the instance, for rds."
  type        = string
}

variable "pause_after_s" {
  description = "Seconds without connections after which Aurora pauses."
  type        = number
}

variable "vpc_id" {
  description = "Network of the database."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets, in two zones or more."
  type        = list(string)
}

variable "client_security_group_id" {
  description = "Security group of the functions. Only members of this group can reach the database."
  type        = string
}

variable "keep" {
  description = "Keep a final snapshot, and protect the database from deletion."
  type        = bool
}

variable "removal" {
  description = "Set while the cluster is being removed: ends the protection, and is part of the last snapshot's name."
  type        = string
}

variable "snapshot" {
  description = "Snapshot from which to create the database, with its version of PostgreSQL and the size of its disk; null for an empty database."
  type        = object({ name = string, version = string, disk_gb = number })
  default     = null
}

variable "alarm_topic_arn" {
  description = "SNS topic to notify when the database is nearly full or busy; or null."
  type        = string
  default     = null
}

locals {
  database = "determined"
  user     = "determined"
  # AWS uses its current default minor version. It stops offering each minor version about two years after its release.
  major = "16"
  # AWS restores a snapshot with its own version, and updates it later.
  version = var.snapshot == null ? local.major : var.snapshot.version
}

# AWS generates the password once, and stores it as a secret. Users with access to the secret or to Terraform's state can
# read the database.
data "aws_secretsmanager_random_password" "this" {
  password_length     = 40
  exclude_punctuation = true
}

resource "aws_secretsmanager_secret" "this" {
  name = "${var.name}/database"
  # A secret in its recovery window would block its name for the next cluster. A snapshot does not need the password.
  recovery_window_in_days = 0
}

resource "aws_secretsmanager_secret_version" "this" {
  secret_id     = aws_secretsmanager_secret.this.id
  secret_string = data.aws_secretsmanager_random_password.this.random_password

  lifecycle {
    ignore_changes = [secret_string]
  }
}

resource "aws_db_subnet_group" "this" {
  name       = var.name
  subnet_ids = var.subnet_ids
}

resource "aws_security_group" "this" {
  name        = "${var.name}-database"
  description = "PostgreSQL, for the functions of the control plane"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "functions" {
  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = var.client_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
  description                  = "PostgreSQL from the functions"
}

resource "aws_rds_cluster_parameter_group" "this" {
  count  = var.kind == "aurora" ? 1 : 0
  name   = var.name
  family = "aurora-postgresql${local.major}"

  # A frozen function keeps its socket open. Without this timeout, Aurora would never pause.
  parameter {
    name  = "idle_session_timeout"
    value = "60000"
  }

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }
}

resource "aws_rds_cluster" "this" {
  count                           = var.kind == "aurora" ? 1 : 0
  cluster_identifier              = var.name
  engine                          = "aurora-postgresql"
  engine_mode                     = "provisioned"
  engine_version                  = local.version
  snapshot_identifier             = one(var.snapshot[*].name)
  database_name                   = local.database
  master_username                 = local.user
  master_password                 = aws_secretsmanager_secret_version.this.secret_string
  db_subnet_group_name            = aws_db_subnet_group.this.name
  vpc_security_group_ids          = [aws_security_group.this.id]
  db_cluster_parameter_group_name = aws_rds_cluster_parameter_group.this[0].name
  storage_encrypted               = true
  backup_retention_period         = 7
  apply_immediately               = true
  copy_tags_to_snapshot           = true
  deletion_protection             = var.keep && var.removal == ""
  skip_final_snapshot             = !var.keep
  final_snapshot_identifier       = var.keep ? "${var.name}-final${var.removal}" : null

  serverlessv2_scaling_configuration {
    min_capacity             = 0
    max_capacity             = var.max_capacity
    seconds_until_auto_pause = var.pause_after_s
  }

  # AWS updates minor versions itself, and cannot go back. A new snapshot must not replace an existing database.
  lifecycle {
    ignore_changes = [engine_version, snapshot_identifier]
  }
}

# The instance uses the version of its cluster.
resource "aws_rds_cluster_instance" "this" {
  count              = var.kind == "aurora" ? 1 : 0
  identifier         = var.name
  cluster_identifier = aws_rds_cluster.this[0].id
  instance_class     = "db.serverless"
  apply_immediately  = true
  engine             = aws_rds_cluster.this[0].engine

  lifecycle {
    ignore_changes = [engine_version]
  }
}

resource "aws_db_instance" "this" {
  count                     = var.kind == "rds" ? 1 : 0
  identifier                = var.name
  engine                    = "postgres"
  engine_version            = local.version
  snapshot_identifier       = one(var.snapshot[*].name)
  instance_class            = var.instance_class
  allocated_storage         = max(20, try(var.snapshot.disk_gb, 0))
  max_allocated_storage     = 200
  storage_type              = "gp3"
  storage_encrypted         = true
  db_name                   = local.database
  username                  = local.user
  password                  = aws_secretsmanager_secret_version.this.secret_string
  db_subnet_group_name      = aws_db_subnet_group.this.name
  vpc_security_group_ids    = [aws_security_group.this.id]
  publicly_accessible       = false
  backup_retention_period   = 7
  apply_immediately         = true
  copy_tags_to_snapshot     = true
  deletion_protection       = var.keep && var.removal == ""
  skip_final_snapshot       = !var.keep
  final_snapshot_identifier = var.keep ? "${var.name}-final${var.removal}" : null

  lifecycle {
    ignore_changes = [engine_version, snapshot_identifier]
  }
}

locals {
  identifier = { aurora = { DBClusterIdentifier = var.name }, rds = { DBInstanceIdentifier = var.name } }[var.kind]
  # For each alarm: the metric of AWS, and its limit for a quarter of an hour.
  alarms = {
    aurora = {
      capacity = { metric = "ACUUtilization", operator = "GreaterThanThreshold", limit = 90, says = "needs nearly all of max_capacity" }
    }
    rds = {
      cpu  = { metric = "CPUUtilization", operator = "GreaterThanThreshold", limit = 90, says = "needs nearly all of its processor" }
      disk = { metric = "FreeStorageSpace", operator = "LessThanThreshold", limit = 2147483648, says = "has less than 2 GiB of disk left" }
    }
  }[var.kind]
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each            = { for name, alarm in local.alarms : name => alarm if var.alarm_topic_arn != null }
  alarm_name          = "${var.name}-database-${each.key}"
  alarm_description   = "The database ${var.name} ${each.value.says}"
  namespace           = "AWS/RDS"
  metric_name         = each.value.metric
  dimensions          = local.identifier
  statistic           = "Average"
  comparison_operator = each.value.operator
  threshold           = each.value.limit
  period              = 300
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = [var.alarm_topic_arn]
}

output "security_group_id" {
  description = "Security group of the database."
  value       = aws_security_group.this.id
}

output "host" {
  description = "Address of the database."
  value       = var.kind == "aurora" ? aws_rds_cluster.this[0].endpoint : aws_db_instance.this[0].address
}

output "port" {
  description = "Port of the database."
  value       = var.kind == "aurora" ? aws_rds_cluster.this[0].port : aws_db_instance.this[0].port
}

output "name" {
  description = "Name of the database."
  value       = local.database
}

output "user" {
  description = "User that owns the tables."
  value       = local.user
}

output "password" {
  description = "Password of the user."
  value       = aws_secretsmanager_secret_version.this.secret_string
  sensitive   = true
}
