# An AWS budget alarm. It also counts costs that the cluster's own budgets do not include.

variable "name" {
  description = "Name of the budget."
  type        = string
}

variable "limit_usd" {
  description = "Dollars a month."
  type        = number
}

variable "emails" {
  description = "Email addresses to notify at 80 % and at 100 %."
  type        = list(string)
}

variable "cluster_id" {
  description = "Value of the cost allocation tag determined-cluster."
  type        = string
}

resource "aws_budgets_budget" "this" {
  name         = var.name
  budget_type  = "COST"
  time_unit    = "MONTHLY"
  limit_amount = tostring(var.limit_usd)
  limit_unit   = "USD"

  # AWS joins key and value with a dollar sign. Directly before an interpolation, a dollar sign would be an escape.
  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:determined-cluster$%s", var.cluster_id)]
  }

  dynamic "notification" {
    for_each = [80, 100]

    content {
      comparison_operator        = "GREATER_THAN"
      notification_type          = "ACTUAL"
      threshold                  = notification.value
      threshold_type             = "PERCENTAGE"
      subscriber_email_addresses = var.emails
    }
  }
}
