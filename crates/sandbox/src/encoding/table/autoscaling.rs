//! Autoscalers: what they aim at and what is measured.

use super::duration::age;
use super::field::{first, list, name, number, scalar, text};
use jiff::Timestamp;
use serde_json::Value;

/// So many targets are shown.
const SHOWN: usize = 2;
const UNKNOWN: &str = "<unknown>";
/// compat: how Go prints an amount that is not there.
const NO_AMOUNT: &str = "<nil>";

/// Name, reference, targets, least pods, most pods, replicas, age. Of `autoscaling/v1` too, which keeps most metrics in annotations.
pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    // An object of one version may be served as one of the other: its fields tell which it is.
    let metrics = if spec["metrics"].is_array() { metrics(object) } else { metrics_of_v1(object) };
    let targets = || first(metrics.iter().map(Metric::shown), metrics.len(), SHOWN, ", ");
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        if metrics.is_empty() { "<none>".into() } else { targets().into() },
        spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
        number(&spec["maxReplicas"]).into(),
        number(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}

/// A metric, its target, and the measured amounts if there are any.
struct Metric {
    /// Such as `Resource`.
    source: String,
    /// The measured resource of a pod, such as `cpu`.
    resource: String,
    target: Amounts,
    current: Option<Amounts>,
}

#[derive(Default)]
struct Amounts {
    value: Option<String>,
    average: Option<String>,
    utilization: Option<i64>,
}

impl Metric {
    fn shown(&self) -> String {
        let current = |of: fn(&Amounts) -> &Option<String>| match &self.current {
            None => UNKNOWN,
            Some(current) => of(current).as_deref().unwrap_or(NO_AMOUNT),
        };
        let value = self.target.value.as_deref().unwrap_or(NO_AMOUNT);
        match (self.source.as_str(), self.target.average.as_deref()) {
            ("External" | "Object", Some(average)) => {
                let measured = self.current.as_ref().and_then(|current| current.average.as_deref());
                format!("{}/{average} (avg)", measured.unwrap_or(UNKNOWN))
            }
            ("External" | "Object", None) => format!("{}/{value}", current(|amounts| &amounts.value)),
            ("Pods", average) => {
                format!("{}/{}", current(|amounts| &amounts.average), average.unwrap_or(NO_AMOUNT))
            }
            ("Resource" | "ContainerResource", Some(average)) => {
                format!("{}: {}/{average}", self.resource, current(|amounts| &amounts.average))
            }
            ("Resource" | "ContainerResource", None) => {
                let percent = |of: Option<i64>, otherwise: &str| {
                    of.map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
                };
                let measured = self.current.as_ref().and_then(|current| current.utilization);
                format!(
                    "{}: {}/{}",
                    self.resource,
                    percent(measured, UNKNOWN),
                    percent(self.target.utilization, "<auto>")
                )
            }
            _ => "<unknown type>".to_owned(),
        }
    }
}

/// The field in which a metric of a source says more.
fn field_of(source: &str) -> &'static str {
    match source {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        _ => "resource",
    }
}

/// The metrics of `autoscaling/v2` and what came before it; `v2beta1` writes amounts as the annotations of `v1` do.
fn metrics(object: &Value) -> Vec<Metric> {
    let amounts = match text(&object["apiVersion"]) {
        "autoscaling/v2beta1" => amounts_of_v1,
        _ => amounts_of_v2,
    };
    listed(list(&object["spec"]["metrics"]), list(&object["status"]["currentMetrics"]), amounts)
}

/// The metrics of `autoscaling/v1`: the processor has fields, what else there is lies as JSON in annotations.
fn metrics_of_v1(object: &Value) -> Vec<Metric> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let annotated = |name: &str| -> Vec<Value> {
        let name = format!("autoscaling.alpha.kubernetes.io/{name}");
        serde_json::from_str(text(&object["metadata"]["annotations"][name])).unwrap_or_default()
    };
    let statuses = annotated("current-metrics");
    let mut found = listed(&annotated("metrics"), &statuses, amounts_of_v1);
    let utilization = spec["targetCPUUtilizationPercentage"].as_i64();
    if utilization.is_some() || found.is_empty() {
        let measured = status["currentCPUUtilizationPercentage"].as_i64();
        let of_field = measured.filter(|_| statuses.is_empty() && found.is_empty());
        let of_field = of_field.map(|percent| Amounts { utilization: Some(percent), ..Amounts::default() });
        let current = current("Resource", statuses.get(found.len()), amounts_of_v1).or(of_field);
        // Without any target the server aims at this one.
        let target = Amounts { utilization: Some(utilization.unwrap_or(80)), ..Amounts::default() };
        found.push(Metric { source: "Resource".to_owned(), resource: "cpu".to_owned(), target, current });
    }
    found
}

/// Reads the amounts of a metric of a source: those that begin with `target`, or with `current`.
type ReadAmounts = fn(&str, &Value, &str) -> Amounts;

/// The metrics of a list, with what is measured of each at the same place of another one.
fn listed(specs: &[Value], statuses: &[Value], amounts: ReadAmounts) -> Vec<Metric> {
    let metric = |(index, spec): (usize, &Value)| {
        let source = text(&spec["type"]);
        let target = &spec[field_of(source)];
        Metric {
            source: source.to_owned(),
            resource: text(&target["name"]).to_owned(),
            target: amounts(source, target, "target"),
            current: current(source, statuses.get(index), amounts),
        }
    };
    specs.iter().enumerate().map(metric).collect()
}

fn current(source: &str, status: Option<&Value>, amounts: ReadAmounts) -> Option<Amounts> {
    let status = &status?[field_of(source)];
    status.is_object().then(|| amounts(source, status, "current"))
}

fn amounts_of_v2(_source: &str, value: &Value, of: &str) -> Amounts {
    let amounts = &value[of];
    Amounts {
        value: scalar(&amounts["value"]),
        average: scalar(&amounts["averageValue"]),
        utilization: amounts["averageUtilization"].as_i64(),
    }
}

/// Amounts that v1 does not leave out are nothing where they are missing.
fn amounts_of_v1(source: &str, value: &Value, prefix: &str) -> Amounts {
    let amount = |field: &str| scalar(&value[format!("{prefix}{field}")]);
    let zero = || Some("0".to_owned());
    let is_current = prefix == "current";
    match source {
        "Object" => {
            Amounts { value: amount("Value").or_else(zero), average: scalar(&value["averageValue"]), utilization: None }
        }
        "Pods" => Amounts { average: amount("AverageValue").or_else(zero), ..Amounts::default() },
        "External" => Amounts {
            value: amount("Value").or_else(|| zero().filter(|_| is_current)),
            average: amount("AverageValue"),
            utilization: None,
        },
        _ => Amounts {
            value: None,
            average: amount("AverageValue").or_else(|| zero().filter(|_| is_current)),
            utilization: value[format!("{prefix}AverageUtilization")].as_i64(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_of_old_versions_are_read() {
        let object = json!({
            "apiVersion": "autoscaling/v2beta1",
            "spec": {"metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 60}},
                {"type": "Object", "object": {"metricName": "q", "targetValue": "7"}}]},
            "status": {"currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 42, "currentAverageValue": "420m"}},
                {"type": "Object", "object": {"metricName": "q", "currentValue": "6"}}]},
        });
        let shown: Vec<String> = metrics(&object).iter().map(Metric::shown).collect();
        assert_eq!(shown, ["cpu: 42%/60%", "6/7"]);
    }
}
