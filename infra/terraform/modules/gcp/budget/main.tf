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
  description = "Money a month, in the currency of the billing account."
  type        = number
}

variable "emails" {
  description = "Who is told at half, at four fifths and at all of it; empty for those who administer the billing account."
  type        = list(string)
}

data "google_project" "this" {}

resource "google_monitoring_notification_channel" "email" {
  for_each     = toset(var.emails)
  display_name = "${var.name}: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
}

# Of the whole project: machines, services and the database carry different labels.
resource "google_billing_budget" "this" {
  billing_account = var.billing_account
  display_name    = "${var.name} (${var.cluster_id})"

  budget_filter {
    projects = ["projects/${data.google_project.this.number}"]
  }

  amount {
    specified_amount {
      # Without a currency it is the billing account's; any other is refused.
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
