# A cluster on Google Cloud: Cloud Run services and a Cloud SQL database. In an idle cluster, only the database costs money by
# the hour.

locals {
  name   = "det-${var.cluster_id}"
  bucket = var.bucket != "" ? var.bucket : "det-${var.cluster_id}-${var.project}"
  # The operator's network, or a new one.
  network_id            = var.network_id != "" ? var.network_id : module.network[0].network_id
  subnetwork_id         = var.network_id != "" ? var.subnetwork_id : module.network[0].subnetwork_id
  machine_subnetwork_id = var.network_id != "" ? var.subnetwork_id : module.network[0].machine_subnetwork_id
  peering               = var.network_id != "" ? var.network_peering : module.network[0].peering
  secrets_key           = var.secrets_key != "" ? var.secrets_key : join("", terraform_data.secrets_key[*].id)
  labels                = merge(var.labels, { managed-by = "determined", determined-cluster = var.cluster_id })
  mails                 = concat(var.alarm_emails, var.monthly_budget_usd > 0 ? var.budget_emails : [])
  apis = setunion(length(local.mails) > 0 ? ["monitoring"] : [], var.monthly_budget_usd > 0 ? ["billingbudgets"] : [], [
    "artifactregistry", "cloudbilling", "cloudbuild", "cloudresourcemanager", "cloudscheduler", "compute", "iam",
    "iamcredentials", "logging", "orgpolicy", "run", "secretmanager", "servicenetworking", "sqladmin", "storage",
  ])
  db_url = "postgresql://${module.database.user}:${module.database.password}@${module.database.host}:5432/${module.database.name}?sslmode=verify-ca&sslrootcert=/secrets/database-ca/ca.pem"
}

resource "google_project_service" "this" {
  for_each           = local.apis
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}

module "network" {
  source       = "../modules/gcp/network"
  count        = var.network_id == "" ? 1 : 0
  name         = local.name
  region       = var.region
  cidr         = var.cidr
  machine_cidr = var.machine_cidr
  nat          = !var.machine_external_ip
  database     = true

  depends_on = [google_project_service.this]
}

module "storage" {
  source          = "../modules/gcp/storage"
  bucket          = local.bucket
  location        = var.region
  keep            = var.keep_data
  lifecycle_rules = var.bucket_lifecycle
  labels          = local.labels

  depends_on = [google_project_service.this]
}

module "images" {
  source  = "../modules/gcp/images"
  project = var.project
  name    = local.name
  region  = var.region
  bucket  = module.storage.bucket
  labels  = local.labels

  depends_on = [google_project_service.this]
}

module "machines" {
  source     = "../modules/gcp/machines"
  name       = local.name
  account_id = "${local.name}-vm"
  network_id = local.network_id
  bucket     = module.storage.bucket
}

module "database" {
  source           = "../modules/gcp/database"
  name             = local.name
  region           = var.region
  tier             = var.database_tier
  disk_gb          = var.database_disk_gb
  highly_available = var.database_highly_available
  max_connections  = var.database_max_connections
  network_id       = local.network_id
  peering          = local.peering
  keep             = var.keep_data
  removal          = var.removal
  labels           = local.labels
}

# The services keep the first users' original password, even if a later apply passes another one.
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

module "secrets" {
  source   = "../modules/gcp/secrets"
  name     = local.name
  location = var.secret_location
  readers = { for name, account in module.controlplane.accounts : name => {
    account = account
    secrets = name == "relay" ? ["database-url", "database-ca", "configuration"] : ["database-url", "database-ca", "configuration", "password", "secrets-key"]
  } }
  labels = local.labels

  values = {
    database-url  = local.db_url
    database-ca   = module.database.ca
    password      = terraform_data.first_password.output
    secrets-key   = local.secrets_key
    configuration = var.cluster_config != "" ? var.cluster_config : jsonencode({ checkpoint_storage = { type = "gcs", bucket = module.storage.bucket } })
  }
}

locals {
  environment = merge(var.aws_role_arn == "" ? {} : { DET_AWS_ROLE_ARN = var.aws_role_arn }, {
    DET_CLUSTER_ID     = var.cluster_id
    DET_CLUSTER_NAME   = var.cluster_id
    DET_CLUSTER_CONFIG = "/secrets/configuration/cluster.yaml"
    DET_OBJECTS        = "gs://${module.storage.bucket}/contexts"
    DET_MAY_WAIT_S     = "30"
    DET_DB_POOL_SIZE   = "8"
    # The time after which the database ends idle sessions of stopped processes. Each session sets this limit itself, because
    # Cloud SQL has no such flag.
    DET_DB_IDLE_S = "600"
    # During a deployment, old and new instances both have connections. A process that finds the database full retries for
    # this time.
    DET_DB_WAKE_S = "20"
    # Values that pools of the cluster configuration use when they set none.
    DET_GCP_DEFAULTS = jsonencode({
      project      = var.project
      region       = var.region
      network_tags = []
      network_interface = {
        network     = local.network_id
        subnetwork  = local.machine_subnetwork_id
        external_ip = var.machine_external_ip
      }
      service_account = {
        email  = module.machines.email
        scopes = ["https://www.googleapis.com/auth/cloud-platform"]
      }
    })
  })
}

module "controlplane" {
  source               = "../modules/gcp/controlplane"
  name                 = local.name
  cluster_id           = var.cluster_id
  region               = var.region
  image                = var.image
  memory               = var.memory
  api_instances        = var.api_instances
  relay                = var.relay
  network_id           = local.network_id
  subnetwork_id        = local.subnetwork_id
  bucket               = module.storage.bucket
  machine_account_name = module.machines.account_name
  secrets              = module.secrets.versions
  secret_environment   = { DET_DB_URL = "database-url", DET_INITIAL_USER_PASSWORD = "password", DET_SECRETS_KEY = "secrets-key" }
  secret_files         = { database-ca = "ca.pem", configuration = "cluster.yaml" }
  labels               = local.labels

  environment = local.environment
}

module "alarms" {
  source             = "../modules/gcp/alarms"
  project            = var.project
  name               = local.name
  emails             = var.alarm_emails
  database           = module.database.instance
  region             = var.region
  log_retention_days = var.log_retention_days
  labels             = local.labels

  depends_on = [google_project_service.this]
}

module "budget" {
  source          = "../modules/gcp/budget"
  count           = var.monthly_budget_usd > 0 ? 1 : 0
  name            = local.name
  billing_account = var.billing_account
  cluster_id      = var.cluster_id
  limit_usd       = var.monthly_budget_usd
  emails          = var.budget_emails

  depends_on = [google_project_service.this]
}
