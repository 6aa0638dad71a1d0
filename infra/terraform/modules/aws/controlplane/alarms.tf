# Alarms for the SNS topic, if one is set: functions that fail, that AWS throttles, or that need nearly all their time, and
# calls of schedules and of other functions that AWS dropped.

locals {
  timeouts_s = merge({ api = local.api_timeout_s }, { for name, worker in local.workers : name => worker.timeout_s if contains(local.schedules, name) })
  # For each kind of alarm: the functions, the metric of AWS, and the limit within five minutes.
  alarm_kinds = {
    errors    = { functions = local.functions, metric = "Errors", statistic = "Sum", above = 5, says = "fails" }
    throttles = { functions = toset(["api", "keys"]), metric = "Throttles", statistic = "Sum", above = 20, says = "has more to do than it may do at once" }
    dropped   = { functions = local.schedules, metric = "AsyncEventsDropped", statistic = "Sum", above = 0, says = "was started by its schedule or by another function, and never ran" }
    duration  = { functions = toset(keys(local.timeouts_s)), metric = "Duration", statistic = "Maximum", above = null, says = "needs nearly all the time that it may take" }
  }
  alarms = merge([for kind, alarm in local.alarm_kinds : { for name in alarm.functions : "${name}-${kind}" => merge(alarm, { function = name }) }]...)
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each            = { for name, alarm in local.alarms : name => alarm if var.alarm_topic_arn != null }
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "The function ${each.value.function} of the cluster ${var.cluster_id} ${each.value.says}"
  namespace           = "AWS/Lambda"
  metric_name         = each.value.metric
  dimensions          = { FunctionName = "${var.name}-${each.value.function}" }
  statistic           = each.value.statistic
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.above == null ? local.timeouts_s[each.value.function] * 900 : each.value.above
  period              = 300
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = [var.alarm_topic_arn]
}

moved {
  from = aws_cloudwatch_metric_alarm.errors["api"]
  to   = aws_cloudwatch_metric_alarm.this["api-errors"]
}

moved {
  from = aws_cloudwatch_metric_alarm.errors["tick"]
  to   = aws_cloudwatch_metric_alarm.this["tick-errors"]
}

moved {
  from = aws_cloudwatch_metric_alarm.errors["provision"]
  to   = aws_cloudwatch_metric_alarm.this["provision-errors"]
}

moved {
  from = aws_cloudwatch_metric_alarm.errors["migrate"]
  to   = aws_cloudwatch_metric_alarm.this["migrate-errors"]
}

moved {
  from = aws_cloudwatch_metric_alarm.errors["keys"]
  to   = aws_cloudwatch_metric_alarm.this["keys-errors"]
}
