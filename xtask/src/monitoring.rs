//! Checks the alerts and the dashboard of docs/monitoring: that Prometheus understands every expression, that the
//! alerts fire when their test says so, and that they name all metrics of the server and no others.

use crate::tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const FOLDER: &str = "docs/monitoring";
/// The file that defines the metrics of the server.
const METRICS: &str = "crates/control/src/metrics.rs";
/// Prefixes of the names of metrics.
const PREFIXES: [&str; 3] = ["velero_", "lifeboat_", "process_"];
/// Suffixes of the series that Prometheus makes of a histogram.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

pub(crate) fn check() -> Result<()> {
    let folder = Path::new(FOLDER);
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
    let alerts = read(&folder.join("alerts.yaml"))?;
    let dashboard: Value = serde_json::from_str(&read(&folder.join("dashboard.json"))?).context("dashboard.json")?;
    let expressions = expressions(&dashboard);
    let server = read(Path::new(METRICS))?;
    let defined = server.split("\nmetrics! {\n").nth(1).and_then(|rest| rest.split("\n}\n").next());
    let defined = defined.with_context(|| format!("{METRICS} has no metrics! {{ … }}"))?;
    compare(&names(defined), &names(&format!("{alerts}\n{}", expressions.join("\n"))))?;

    let promtool = tools::promtool()?;
    let told = |args: &[&str]| {
        let output = Command::new(&promtool).args(args).output().context("run promtool")?;
        if !output.status.success() {
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            bail!("promtool {}:\n{out}{err}", args.join(" "));
        }
        Ok(())
    };
    told(&["check", "rules", &folder.join("alerts.yaml").display().to_string()])?;
    told(&["test", "rules", &folder.join("alerts-test.yaml").display().to_string()])?;
    let mut rules = tempfile::NamedTempFile::new().context("make a file for rules")?;
    rules.write_all(as_rules(&expressions)?.as_bytes()).context("write rules")?;
    told(&["check", "rules", &rules.path().display().to_string()]).context("an expression of dashboard.json")
}

/// All expressions of a dashboard, with values for its variables.
fn expressions(dashboard: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(dashboard, &mut found);
    let variables = [("$__rate_interval", "5m"), ("$__range", "7d"), ("$schedule", ".*")];
    let filled =
        |text: &String| variables.iter().fold(text.clone(), |text, (variable, value)| text.replace(variable, value));
    found.iter().map(filled).collect()
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get("expr") {
                found.push(text.clone());
            }
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Recording rules of expressions, because promtool checks only rules.
fn as_rules(expressions: &[String]) -> Result<String> {
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (i, expression) in expressions.iter().enumerate() {
        writeln!(rules, "      - {{record: 'panel:{i}', expr: {}}}", Value::String(expression.clone()))?;
    }
    Ok(rules)
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics =
        words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix) && word.len() > prefix.len()));
    metrics.map(|word| PARTS.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word)).collect()
}

/// Every metric of the server is shown or alerted on, and nothing else is.
fn compare(server: &BTreeSet<&str>, used: &BTreeSet<&str>) -> Result<()> {
    // The library gives these.
    let process = ["process_cpu_seconds_total", "process_resident_memory_bytes"];
    let unknown: Vec<&&str> = used.difference(server).filter(|name| !process.contains(*name)).collect();
    if !unknown.is_empty() {
        bail!("{FOLDER} names metrics that the server has not: {unknown:?}");
    }
    let unused: Vec<&&str> = server.difference(used).filter(|name| !name.starts_with("process_")).collect();
    if !unused.is_empty() {
        bail!("no alert and no panel of {FOLDER} shows these metrics of the server: {unused:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_metrics_without_the_parts_of_histograms() {
        let text = r#"sum(velero_a_bucket{le="1"}) / velero_a_count + velero_b / x_velero_c - "velero_" lifeboat_d"#;
        assert_eq!(names(text), ["lifeboat_d", "velero_a", "velero_b"].into());
    }

    #[test]
    fn a_metric_that_one_side_lacks_is_refused() {
        let server = ["velero_a", "velero_b"].into();
        compare(&server, &["velero_a", "velero_b", "process_cpu_seconds_total"].into()).unwrap();
        let unknown = compare(&server, &["velero_a", "velero_b", "velero_c"].into()).unwrap_err();
        assert!(unknown.to_string().contains("velero_c"), "{unknown}");
        let unused = compare(&server, &["velero_a"].into()).unwrap_err();
        assert!(unused.to_string().contains("velero_b"), "{unused}");
    }

    #[test]
    fn variables_of_the_dashboard_get_values() {
        let dashboard =
            serde_json::json!({"panels": [{"targets": [{"expr": "rate(a{s=~\"$schedule\"}[$__rate_interval])"}]}]});
        assert_eq!(expressions(&dashboard), [r#"rate(a{s=~".*"}[5m])"#]);
    }
}
