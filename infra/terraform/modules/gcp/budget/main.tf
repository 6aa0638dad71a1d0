# A Google Cloud budget alarm. It also counts costs that the cluster's own budgets do not include,
# and stops no work.

variable "name" {
  description = "Name of the budget."
  type        = string
}

variable "billing_account" {
  description = "Id of the billing account that pays for the project."
  type        = string
}

variable "cluster_id" {
  description = "Name of the cluster, whose label costs carry."
  type        = string
}

variable "limit_usd" {
  description = "Limit of a month, in the currency of the billing account."
  type        = number
}

variable "emails" {
  description = "Email addresses to notify at 50, 80 and 100 percent; empty for the administrators of the billing account."
  type        = list(string)
}

data "google_project" "this" {}

resource "google_monitoring_notification_channel" "email" {
  for_each     = toset(var.emails)
  display_name = "${var.name}: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
}

# The budget covers the whole project, because machines, services and the database have different labels.
resource "google_billing_budget" "this" {
  billing_account = var.billing_account
  display_name    = "${var.name} (${var.cluster_id})"

  budget_filter {
    projects = ["projects/${data.google_project.this.number}"]
  }

  amount {
    specified_amount {
      # Without a currency, the budget uses the billing account's. Google Cloud refuses all others.
      units = tostring(floor(var.limit_usd))
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.8, 1.0]

    content {
      threshold_percent = threshold_rules.value
    }
  }

  dynamic "all_updates_rule" {
    for_each = length(var.emails) > 0 ? [1] : []

    content {
      monitoring_notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]
    }
  }
}
