//! Traces of operations, as a collector of OpenTelemetry gets them.

use crate::faults::{config_maps, namespace};
use crate::ground::Server;
use crate::support::{Run, Sandbox, eventually, program, run, spawn_logged};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A collector on a port of its own.
struct Collector {
    url: String,
    taken: Taken,
    _runtime: Runtime,
}

/// The attributes of a process, as they were sent to a collector.
type Resource = BTreeMap<String, String>;

/// The data that a collector was sent: the attributes of the senders, and the spans.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<(Vec<Resource>, Vec<Span>)>>);

#[tonic::async_trait]
impl TraceService for Taken {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for sent in request.into_inner().resource_spans {
            taken.0.push(attributes(&sent.resource.unwrap_or_default().attributes));
            taken.1.extend(sent.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.iter().map(|one| (one.key.clone(), text(&one.value))).collect()
}

impl Collector {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let taken = Taken::default();
        let within = runtime.enter();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).expect("a listener"));
        let service = TraceServiceServer::new(taken.clone());
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        drop(within);
        Self { url, taken, _runtime: runtime }
    }

    /// The senders and the spans that have come since the last call.
    fn take(&self) -> (Vec<BTreeMap<String, String>>, Vec<Span>) {
        std::mem::take(&mut self.taken.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Each span as `parent/name`, with what its status says, and its events; sorted.
fn tree(spans: &[Span]) -> Vec<String> {
    let names: BTreeMap<&[u8], &str> = spans.iter().map(|span| (&*span.span_id, &*span.name)).collect();
    let line = |span: &Span| {
        let parent = names.get(&*span.parent_span_id).map(|parent| format!("{parent}/")).unwrap_or_default();
        let status = span.status.clone().unwrap_or_default();
        let said = if status.code == 0 { String::new() } else { format!(" {}: {}", status.code, status.message) };
        let events: String = span.events.iter().map(|event| format!(" [{}]", event.name)).collect();
        format!("{parent}{}{said}{events}", span.name)
    };
    let mut out: Vec<String> = spans.iter().map(line).collect();
    out.sort();
    out
}

fn cluster() -> Sandbox {
    let items: Vec<_> = std::iter::once(namespace("shop")).chain(config_maps("shop", 3)).collect();
    Sandbox::start(&json!({"kind": "List", "items": items}).to_string())
}

/// Runs `lifeboat local ARGS` with this endpoint in the environment.
fn local(sandbox: &Sandbox, folder: &Path, endpoint: &str, args: &[&str]) -> Run {
    let mut command = Command::new(program());
    command.arg("local").args(args).arg("--bucket").arg(folder.join("bucket"));
    command.env("KUBECONFIG", sandbox.kubeconfig()).env("XDG_STATE_HOME", folder.join("state"));
    run(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint))
}

#[test]
fn an_operation_is_a_trace_with_a_span_for_each_stage() {
    let (sandbox, collector, folder) = (cluster(), Collector::start(), tempfile::tempdir().expect("a folder"));
    let traced = |code: i32, args: &[&str]| {
        let run = local(&sandbox, folder.path(), &collector.url, args);
        assert_eq!(run.code, code, "{run:?}");
        let (senders, spans) = collector.take();
        (senders, spans, run)
    };
    let (senders, spans, run) = traced(0, &["backup", "b", "--include-namespaces", "shop"]);
    assert_eq!(run.err, "");
    let stages = ["claim", "collect", "discover", "process", "publish", "seal", "write"];
    let expected: Vec<String> =
        std::iter::once("backup".to_owned()).chain(stages.map(|stage| format!("backup/{stage}"))).collect();
    assert_eq!(tree(&spans), expected);
    let service = senders[0].get("service.name").map(String::as_str);
    assert_eq!((senders.len(), service), (1, Some("lifeboat")));
    let root = spans.iter().find(|span| span.name == "backup").expect("a root");
    assert!(spans.iter().all(|span| span.trace_id == root.trace_id));
    let mut found = attributes(&root.attributes);
    let uid = found.remove("velero.uid").expect("a UID");
    assert_eq!(uid.len(), 36);
    let expected = [("k8s.namespace.name", "velero"), ("lifeboat.attempt", "1"), ("velero.name", "b")];
    assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());

    let (_, spans, _) = traced(0, &["restore", "r", "--from-backup", "b"]);
    assert_eq!(tree(&spans), ["restore", "restore/levels", "restore/read", "restore/record"]);

    // What goes wrong in it is told, and what does not is left to the log.
    let (_, spans, _) = traced(3, &["backup", "partly", "--include-namespaces", "shop,nowhere"]);
    let missing = "the included namespace nowhere does not exist";
    let expected = std::iter::once(format!("backup 2: PartiallyFailed [{missing}]"));
    assert_eq!(tree(&spans), expected.chain(stages.map(|stage| format!("backup/{stage}"))).collect::<Vec<_>>());

    let (_, spans, run) = traced(1, &["restore", "none", "--from-backup", "nothing"]);
    let why = run.err.trim_end().strip_prefix("An error occurred: ").expect("an error");
    assert_eq!(tree(&spans), [format!("restore 2: {why}")]);
}

#[test]
fn a_collector_that_is_away_costs_an_operation_one_warning() {
    let (sandbox, folder) = (cluster(), tempfile::tempdir().expect("a folder"));
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    for (name, address, why) in [
        ("hangs", silent.local_addr().expect("its address"), "no answer within 2 s"),
        ("refuses", nobody, "Unavailable"),
    ] {
        let args = ["backup", name, "--include-namespaces", "shop"];
        let run = local(&sandbox, folder.path(), &format!("http://{address}"), &args);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.out.starts_with("Backup completed with status: Completed. "), "{run:?}");
        let warned =
            run.err.contains(&format!("warning: spans of traces could not be sent (spans 8, collector {address}): "));
        assert!(warned && run.err.contains(why) && run.err.lines().count() == 1, "{run:?}");
    }
}

#[test]
fn a_server_makes_traces_of_what_it_does() {
    let mut items = lifeboat_api::crds();
    items.extend([namespace("velero"), namespace("shop")]);
    items.extend(config_maps("shop", 3));
    let velero = |kind: &str, name: &str, spec: serde_json::Value| {
        json!({"apiVersion": "velero.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "velero"}, "spec": spec})
    };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("main")).expect("a folder");
    items.push(velero(
        "BackupStorageLocation",
        "main",
        json!({"provider": "lifeboat.io/directory", "default": true, "objectStorage": {"bucket": "b"},
            "config": {"path": folder.path().join("main").display().to_string()}}),
    ));
    // Its last run was long ago: one is due when the server begins, and the next one in the new year.
    let mut yearly = velero(
        "Schedule",
        "yearly",
        json!({"schedule": "@yearly", "skipImmediately": false, "template": {"includedNamespaces": ["shop"]}}),
    );
    yearly["status"] = json!({"phase": "Enabled", "lastBackup": "2020-06-01T00:00:00Z"});
    items.push(yearly);
    let sandbox = Sandbox::start(&json!({"kind": "List", "items": items}).to_string());
    let collector = Collector::start();
    let command = || {
        let mut command = Command::new(program());
        command.env("KUBECONFIG", sandbox.kubeconfig()).env("HOME", folder.path());
        command
    };
    let mut serving = command();
    serving.args(["server", "--metrics-address", "", "--download-address", "", "--identity", "one"]);
    serving.args(["--otlp-endpoint", &collector.url, "--directory-root"]).arg(folder.path());
    let log = folder.path().join("log");
    let server = Server(spawn_logged(&mut serving, &log));
    let ok = |line: &str| {
        let run = run(command().args(line.split(' ')));
        assert_eq!(run.code, 0, "{line}: {run:?} {}", std::fs::read_to_string(&log).unwrap_or_default());
    };
    let kubectl = sandbox.kubectl();
    let phases = ["get", "backups", "--namespace=velero", "--selector=velero.io/schedule-name=yearly"];
    let phases = [&phases[..], &["--output=jsonpath={.items[*].status.phase}"]].concat();
    eventually("the run of the schedule", || kubectl.try_run(&phases).is_ok_and(|phases| phases == "Completed"));
    ok("backup create b --include-namespaces shop --wait");
    ok("restore create r --from-backup b --wait");
    ok("backup delete b --confirm");
    eventually("the deletion", || kubectl.try_run(&["get", "backup", "b", "--namespace=velero"]).is_err());
    assert_eq!(server.stop(), Some(0));
    let (_, spans) = collector.take();
    let mut roots: Vec<String> = tree(&spans).into_iter().filter(|line| !line.contains('/')).collect();
    roots.dedup();
    assert_eq!(
        roots,
        ["backup", "deletion", "restore", "schedule run"],
        "{}",
        std::fs::read_to_string(&log).unwrap_or_default()
    );
    let of_deletion: Vec<String> = tree(&spans).into_iter().filter(|line| line.starts_with("deletion")).collect();
    assert_eq!(of_deletion, ["deletion", "deletion/files", "deletion/objects"]);
}
