"""Alarms of CloudWatch, for a topic that is a parameter: answers of 5xx, and targets that fail their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.aws.view import Template, attribute_of, resource

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def add_error_alarm(template: Template, balancer: str) -> None:
    """The Application Load Balancer itself answers with 5xx: no healthy target, timeouts, closed connections."""
    most: Data = template.add_parameter(
        "AlarmErrors",
        "Answers of 5xx by the load balancer itself in a minute that raise the alarm",
        Type="Number",
        Default=10,
    )
    what: dict[str, Data] = {
        "AlarmDescription": "The load balancer itself answers with 5xx",
        "MetricName": "HTTPCode_ELB_5XX_Count",
        "Statistic": "Sum",
        "Threshold": most,
    }
    template.resources[f"Alarm{balancer}"] = _alarm(template, balancer, {}, what)


def add_target_alarm(template: Template, group: str, balancer: str) -> None:
    """A target of the group fails its checks."""
    what: dict[str, Data] = {
        "AlarmDescription": f"Targets of {group} fail their health checks",
        "MetricName": "UnHealthyHostCount",
        "Statistic": "Maximum",
        "Threshold": 1,
    }
    template.groups[f"Alarm{group}"] = _alarm(template, balancer, {"TargetGroup": (group, "TargetGroupFullName")}, what)


def _alarm(template: Template, balancer: str, others: dict[str, tuple[str, str]], what: dict[str, Data]) -> Data:
    condition, topic = template.add_option("AlarmTopicArn", "ARN of the topic of SNS that gets alarms")
    dimensions = {"LoadBalancer": (balancer, "LoadBalancerFullName"), **others}
    kind = "ApplicationELB" if balancer.startswith("Application") else "NetworkELB"
    properties: dict[str, Data] = {
        "Namespace": f"AWS/{kind}",
        **what,
        "Dimensions": [{"Name": key, "Value": attribute_of(*value)} for key, value in dimensions.items()],
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Period": 60,
        "EvaluationPeriods": 3,  # minutes, so that one bad check or restart is none
        "TreatMissingData": "notBreaching",
        "AlarmActions": [topic],
        "OKActions": [topic],
    }
    return resource("CloudWatch::Alarm", properties, condition=condition)
