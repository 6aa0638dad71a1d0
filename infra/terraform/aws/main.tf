# A cluster on AWS: functions over a serverless database. While the cluster is idle, only the stored
# data of the database costs money.

data "aws_availability_zones" "available" {
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

data "aws_caller_identity" "current" {}

locals {
  name = "det-${var.cluster_id}"
  # CloudFront cannot reach machines in these zones. Names of zones differ between accounts, but ids do not. Most of these
  # zones are old, and refuse new subnets of some accounts. Machines have a subnet there only if the zone is among the first.
  far_zone_ids = ["use1-az3", "usw1-az2", "cac1-az3", "apne1-az3", "apne2-az1"]
  listed       = data.aws_availability_zones.available.names
  zone_ids     = zipmap(local.listed, data.aws_availability_zones.available.zone_ids)
  near_zones   = [for zone in local.listed : zone if !contains(local.far_zone_ids, local.zone_ids[zone])]
  first_zones  = slice(local.listed, 0, min(3, length(local.listed)))
  letters      = { for number, letter in split("", "abcdefgh") : letter => number }

  # The addresses of a zone's subnets depend on the zone's number. If a number changed, Terraform would replace the subnets of
  # existing clusters. The first three zones have the number of their position. Later zones have the number of their letter,
  # which stays the same when AWS adds a zone.
  zones = length(var.zones) > 0 ? { for number, zone in var.zones : zone => number } : merge(
    { for zone in local.near_zones : zone => local.letters[substr(zone, -1, 1)] if contains(keys(local.letters), substr(zone, -1, 1)) },
    { for number, zone in local.first_zones : zone => number },
  )
  # The zones of functions and database. Lambda refuses use1-az3, so existing clusters have no functions there.
  lambda_zones   = [for zone in concat(local.first_zones, [for zone in keys(local.zones) : zone if !contains(local.first_zones, zone)]) : zone if local.zone_ids[zone] != "use1-az3"]
  function_zones = length(var.zones) > 0 ? var.zones : slice(local.lambda_zones, 0, min(3, length(local.lambda_zones)))
  relay_zone     = concat([for zone in local.function_zones : zone if !contains(local.far_zone_ids, lookup(local.zone_ids, zone, ""))], local.function_zones)[0]

  bucket = var.bucket != "" ? var.bucket : lower("det-${var.cluster_id}-${var.region}-${data.aws_caller_identity.current.account_id}")
  # The variables that Google's clients read, for pools on Google Cloud.
  google = var.google_credentials == "" ? {} : { GOOGLE_APPLICATION_CREDENTIALS = var.google_credentials, GOOGLE_CLOUD_PROJECT = var.google_project }
  ca     = var.database_ca == "" ? "" : "?sslrootcert=${var.database_ca}"
  db_url = "postgresql://${module.database.user}:${module.database.password}@${module.database.host}:${module.database.port}/${module.database.name}${local.ca}"

  machine_subnet_ids = var.machine_external_ip ? module.network.public_subnet_ids : module.network.private_subnet_ids

  secrets_key  = var.secrets_key != "" ? var.secrets_key : join("", terraform_data.secrets_key[*].id)
  front_secret = sensitive(join("", terraform_data.front_secret[*].id))
}

module "network" {
  source         = "../modules/aws/network"
  name           = local.name
  cidr           = var.cidr
  zones          = local.zones
  function_zones = local.function_zones
  nat            = !var.machine_external_ip
}

module "storage" {
  source          = "../modules/aws/storage"
  bucket          = local.bucket
  keep            = var.keep_data
  lifecycle_rules = var.bucket_lifecycle
}

module "machines" {
  source               = "../modules/aws/machines"
  name                 = local.name
  vpc_id               = module.network.vpc_id
  bucket_arn           = module.storage.arn
  permissions_boundary = var.permissions_boundary
}

module "database" {
  source = "../modules/aws/database"
  # A cluster that is being removed may have a name that is not allowed any more: Terraform checks names first.
  name                     = trim(replace(lower(local.name), "/-+/", "-"), "-")
  kind                     = var.database
  max_capacity             = var.database_max_capacity
  instance_class           = var.database_instance_class
  pause_after_s            = var.database_pause_after_s
  vpc_id                   = module.network.vpc_id
  subnet_ids               = module.network.function_subnet_ids
  client_security_group_id = module.controlplane.security_group_id
  keep                     = var.keep_data
  removal                  = var.removal
  snapshot                 = var.database_snapshot
  alarm_topic_arn          = var.alarm_topic_arn
}

# The functions keep the first users' original password, even if a later apply passes another one.
resource "terraform_data" "first_password" {
  input = var.initial_user_password

  lifecycle {
    ignore_changes = [input]
  }
}

# The key that encrypts secrets of configurations in the database: two random ids of the built-in provider, created once.
resource "terraform_data" "secrets_key" {
  count = 2
}

# The distribution sends this secret to the API, so that the API trusts the headers of the distribution.
resource "terraform_data" "front_secret" {
  count = var.relay ? 2 : 0
}

module "relay" {
  source                     = "../modules/aws/relay"
  count                      = var.relay ? 1 : 0
  name                       = local.name
  cluster_id                 = var.cluster_id
  zip                        = var.relay_zip
  runtime                    = var.runtime
  architecture               = var.architecture
  api_url                    = module.controlplane.function_url
  front_secret               = local.front_secret
  vpc_id                     = module.network.vpc_id
  subnet_id                  = module.network.function_subnet_ids[index(local.function_zones, local.relay_zone)]
  zone                       = local.relay_zone
  has_nat                    = !var.machine_external_ip
  database_security_group_id = module.database.security_group_id
  permissions_boundary       = var.permissions_boundary

  environment = {
    DET_DB_URL         = local.db_url
    DET_CLUSTER_ID     = var.cluster_id
    DET_CLUSTER_CONFIG = "/var/task/cluster.yaml"
    DET_OBJECTS        = "s3://${module.storage.bucket}/contexts"
    DET_DB_IDLE_S      = "60"
    DET_DB_WAKE_S      = "20"
  }
}

module "controlplane" {
  source               = "../modules/aws/controlplane"
  name                 = local.name
  cluster_id           = var.cluster_id
  zip                  = var.zip
  provision_zip        = var.provision_zip
  keys_zip             = var.keys_zip
  runtime              = var.runtime
  architecture         = var.architecture
  snap_start           = var.snap_start
  endpoint             = var.endpoint
  memory_mb            = var.memory_mb
  api_concurrency      = var.api_concurrency
  log_retention_days   = var.log_retention_days
  vpc_id               = module.network.vpc_id
  subnet_ids           = module.network.function_subnet_ids
  bucket_arn           = module.storage.arn
  machine_role_arn     = module.machines.role_arn
  kms_key_arns         = var.kms_key_arns
  permissions_boundary = var.permissions_boundary
  alarm_topic_arn      = var.alarm_topic_arn
  has_nat              = !var.machine_external_ip
  has_relay            = var.relay
  public_url           = one(module.relay[*].url)
  relay_instance_id    = one(module.relay[*].instance_id)
  front_secret         = local.front_secret

  environment = merge(local.google, {
    DET_DB_URL                = local.db_url
    DET_CLUSTER_ID            = var.cluster_id
    DET_CLUSTER_CONFIG        = "/var/task/cluster.yaml"
    DET_OBJECTS               = "s3://${module.storage.bucket}/contexts"
    DET_INITIAL_USER_PASSWORD = sensitive(terraform_data.first_password.output)
    DET_SECRETS_KEY           = sensitive(local.secrets_key)
    # Values that pools of the cluster configuration use when they set none.
    DET_AWS_DEFAULTS = jsonencode({
      region                   = var.region
      iam_instance_profile_arn = module.machines.instance_profile_arn
      network_interface = {
        subnet_ids        = local.machine_subnet_ids
        security_group_id = module.machines.security_group_id
        public_ip         = var.machine_external_ip
      }
    })
  })
}

module "budget" {
  source     = "../modules/aws/budget"
  count      = var.monthly_budget_usd > 0 ? 1 : 0
  name       = local.name
  cluster_id = var.cluster_id
  limit_usd  = var.monthly_budget_usd
  emails     = var.budget_emails
}
