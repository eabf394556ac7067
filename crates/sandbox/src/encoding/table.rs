//! Tables: the rows that `kubectl get` prints.
//!
//! The server makes the cells, not kubectl. So a server that is to look like a cluster has to make those of a cluster. Everything
//! here is pure: an object and the time in, cells out. A field that an object lacks, or that has another type than it should, is
//! taken as the zero value, of which each printer says what it looks like.

mod access;
mod autoscaling;
mod cluster;
mod columns;
mod custom;
mod devices;
mod duration;
mod events;
mod field;
mod json_path;
mod network;
mod pods;
mod policy;
mod selector;
mod storage;
mod workloads;

use crate::types::served::Column;
use columns::ColumnDefinition;
use custom::CustomColumns;
use jiff::Timestamp;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

/// Makes the cells of one object, in the order of its columns.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// Turns objects of one type into rows.
#[derive(Clone, Debug)]
pub(crate) struct Printer {
    columns: Vec<ColumnDefinition>,
    cells: CellsOf,
    conditions: fn(&Value) -> Option<Value>,
}

#[derive(Clone, Debug)]
enum CellsOf {
    BuiltIn(Cells),
    Custom(CustomColumns),
    /// Of a type that Kubernetes has no printer for: the name and the time at which it was made.
    NameAndTime,
}

impl Printer {
    /// The printer of a type; `custom` are the columns of one that is not built in. A version of a built-in type that this server
    /// does not know, and of which nothing is known but its objects, has the columns of the others: they differ little.
    pub(crate) fn of(resource: &ApiResource, custom: Option<&[Column]>) -> Self {
        let (group, name) = (resource.group.as_str(), resource.resource.as_str());
        let built_in = cells_of(group, name).filter(|_| custom.is_none_or(<[Column]>::is_empty));
        let (columns, cells) = match (built_in, custom) {
            (Some(cells), _) => (columns::of(group, name), CellsOf::BuiltIn(cells)),
            (None, Some(custom)) => {
                let custom = CustomColumns::new(custom);
                (custom.definitions(), CellsOf::Custom(custom))
            }
            (None, None) => (columns::name_and_time(), CellsOf::NameAndTime),
        };
        let is_pod = group.is_empty() && name == "pods";
        Self { columns, cells, conditions: if is_pod { pods::conditions } else { |_| None } }
    }

    /// The columns, as a table declares them.
    pub(crate) fn columns(&self) -> Value {
        json!(self.columns)
    }

    /// The cells of an object.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.cells {
            CellsOf::BuiltIn(cells) => cells(object, now),
            CellsOf::Custom(columns) => columns.cells(object, now),
            CellsOf::NameAndTime => {
                let made = duration::time(&object["metadata"]["creationTimestamp"]);
                // compat: the zero time of Go.
                let made = made.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |t| t.to_string());
                vec![field::name(object), made.into()]
            }
        }
    }

    /// Conditions of the row: that a pod has ended. kubectl can leave such rows out.
    pub(crate) fn conditions(&self, object: &Value) -> Option<Value> {
        (self.conditions)(object)
    }
}

/// The printer of a built-in type.
fn cells_of(group: &str, resource: &str) -> Option<Cells> {
    Some(match (group, resource) {
        ("", "componentstatuses") => cluster::component_status,
        ("", "configmaps") => access::config_map,
        ("", "endpoints") => network::endpoints,
        ("", "events") => events::core,
        ("", "namespaces") => cluster::namespace,
        ("", "nodes") => cluster::node,
        ("", "persistentvolumeclaims") => storage::claim,
        ("", "persistentvolumes") => storage::volume,
        ("", "pods") => pods::pod,
        ("", "podtemplates") => workloads::pod_template,
        ("", "replicationcontrollers") => workloads::replication_controller,
        ("", "resourcequotas") => policy::resource_quota,
        ("", "secrets") => access::secret,
        ("", "serviceaccounts") => access::service_account,
        ("", "services") => network::service,
        ("apiregistration.k8s.io", "apiservices") => cluster::api_service,
        ("apps", "controllerrevisions") => workloads::controller_revision,
        ("apps", "daemonsets") => workloads::daemon_set,
        ("apps", "deployments") => workloads::deployment,
        ("apps", "replicasets") => workloads::replica_set,
        ("apps", "statefulsets") => workloads::stateful_set,
        ("events.k8s.io", "events") => events::events,
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::autoscaler,
        ("batch", "cronjobs") => workloads::cron_job,
        ("batch", "jobs") => workloads::job,
        ("certificates.k8s.io", "certificatesigningrequests") => access::signing_request,
        ("networking.k8s.io", "ingressclasses") => network::ingress_class,
        ("networking.k8s.io", "ingresses") => network::ingress,
        ("networking.k8s.io", "ipaddresses") => network::ip_address,
        ("networking.k8s.io", "networkpolicies") => network::network_policy,
        ("networking.k8s.io", "servicecidrs") => network::service_cidr,
        ("policy", "poddisruptionbudgets") => policy::disruption_budget,
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => access::role_binding,
        ("storage.k8s.io", "csidrivers") => storage::csi_driver,
        ("storage.k8s.io", "csinodes") => storage::csi_node,
        ("storage.k8s.io", "storageclasses") => storage::storage_class,
        ("storage.k8s.io", "volumeattachments") => storage::volume_attachment,
        ("storage.k8s.io", "volumeattributesclasses") => storage::attributes_class,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            policy::webhooks
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => policy::admission_policy,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => policy::admission_policy_binding,
        ("scheduling.k8s.io", "priorityclasses") => policy::priority_class,
        ("coordination.k8s.io", "leases") => cluster::lease,
        ("node.k8s.io", "runtimeclasses") => cluster::runtime_class,
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice,
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => devices::name_and_age,
        ("resource.k8s.io", "resourceclaims") => devices::claim,
        ("resource.k8s.io", "resourceslices") => devices::slice,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => policy::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => policy::priority_level,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::served::ServedTypes;

    #[test]
    fn a_version_of_which_nothing_is_known_has_the_columns_of_the_type() {
        let of = |version: &str, custom: Option<&[Column]>| {
            Printer::of(&ApiResource::new("batch", version, "cronjobs", "CronJob"), custom).columns
        };
        assert_eq!(of("v1beta1", Some(&[])), of("v1", None));
        let stranger = ApiResource::new("example.com", "v1", "cronjobs", "CronJob");
        assert_eq!(
            Printer::of(&stranger, Some(&[])).columns,
            [ColumnDefinition::name(), ColumnDefinition::made("Age")]
        );
    }

    /// Replaces what lies so deep.
    fn replace(value: &mut Value, odd: &Value, depth: usize) {
        match value {
            Value::Object(fields) if depth > 0 => fields.values_mut().for_each(|v| replace(v, odd, depth - 1)),
            Value::Array(elements) if depth > 0 => elements.iter_mut().for_each(|v| replace(v, odd, depth - 1)),
            other => *other = odd.clone(),
        }
    }

    #[test]
    fn whatever_an_object_holds_it_has_all_cells() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/tables.json")).unwrap();
        let types = ServedTypes::default();
        for row in golden["rows"].as_array().unwrap() {
            let (api_version, resource) = row["type"].as_str().unwrap().rsplit_once('/').unwrap();
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let printer = Printer::of(types.find(group, version, resource).unwrap(), None);
            let numbers = [json!(-1), json!(1.5), json!(i64::MAX), json!(i64::MIN)];
            for odd in numbers.into_iter().chain([json!(null), json!("x"), json!([[]]), json!({"x": {}})]) {
                for depth in 0..7 {
                    let mut object = row["object"].clone();
                    replace(&mut object, &odd, depth);
                    let cells = printer.cells(&object, Timestamp::UNIX_EPOCH);
                    assert_eq!(cells.len(), row["cells"].as_array().unwrap().len(), "{object}");
                }
            }
        }
    }
}
