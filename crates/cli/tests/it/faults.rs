//! Fixtures of the fault tests: a cluster in memory and an S3 server, and for each case a proxy before either.

use crate::support::{Run, eventually};
use lifeboat_archive::{ArchivePath, ReadLimits, TarReader};
use lifeboat_bucket::Directory;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_store::{OpenOptions, Store};
use lifeboat_testbed::{Kubectl, Proxy, S3Server};
use serde_json::{Value, json};
use std::any::Any;
use std::fmt::Debug;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The one bucket; every case has a folder in it.
const BUCKET: &str = "faults";
/// Seconds that no run takes, whatever breaks.
const PATIENCE: &str = "180";

/// A cluster and an S3 server for the cases of one test.
pub(crate) struct Ground {
    s3: S3Server,
    kubeconfig: PathBuf,
    folder: TempDir,
    // Before the runtime that it runs on.
    _sandbox: Sandbox,
    runtime: Runtime,
}

/// The runs of the binary in one case, with a machine, a folder of the bucket and proxies of their own.
pub(crate) struct Case<'a> {
    ground: &'a Ground,
    /// Before the API server.
    pub(crate) api: Proxy,
    /// Before the S3 server.
    pub(crate) s3: Proxy,
    kubeconfig: PathBuf,
    folder: String,
    name: String,
}

impl Ground {
    /// A cluster that holds these objects, and an empty bucket.
    pub(crate) fn start(objects: Vec<Value>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = Runtime::new().expect("a runtime");
        let token = "faults".to_owned();
        let options = SandboxOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            token: token.clone(),
            now: Arc::new(jiff::Timestamp::now),
            new_uid: Arc::new(|| uuid::Uuid::new_v4().to_string()),
            ..SandboxOptions::for_tests()
        };
        let sandbox = runtime.block_on(async {
            let sandbox = Sandbox::start(options).await.expect("a sandbox");
            sandbox.apply(objects).await.expect("its objects");
            sandbox
        });
        let authority = folder.path().join("sandbox.crt");
        std::fs::write(&authority, sandbox.authority_pem()).expect("write");
        let (address, authority) = (sandbox.address(), authority.display());
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sandbox\n\
             clusters: [{{name: sandbox, cluster: {{server: \"https://{address}\", certificate-authority: \"{authority}\"}}}}]\n\
             users: [{{name: admin, user: {{token: {token}}}}}]\n\
             contexts: [{{name: sandbox, context: {{cluster: sandbox, user: admin}}}}]\n"
        );
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, text).expect("write");
        let s3 = S3Server::start().expect("an S3 server");
        s3.make_bucket(BUCKET).expect("a bucket");
        Self { s3, kubeconfig, folder, _sandbox: sandbox, runtime }
    }

    /// kubectl on the cluster, past all proxies.
    pub(crate) fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig).expect("kubectl")
    }

    /// A case with a folder of its own in the bucket.
    pub(crate) fn case(&self, name: &str) -> Case<'_> {
        self.case_on(&self.kubeconfig, name, name)
    }

    /// A case that shares a folder of the bucket with others, and may speak to another cluster.
    pub(crate) fn case_on(&self, kubeconfig: &Path, folder: &str, name: &str) -> Case<'_> {
        // The proxy's kubeconfig lies beside the one it is made from: the name must be nobody else's.
        let unique = self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (api, kubeconfig) = Proxy::before_api_server(kubeconfig, &format!("{unique}-{name}")).expect("a proxy");
        let s3 = Proxy::start(self.s3.endpoint(), None).expect("a proxy");
        Case { ground: self, api, s3, kubeconfig, folder: folder.to_owned(), name: name.to_owned() }
    }

    /// The same for the cluster of this ground.
    pub(crate) fn case_in(&self, folder: &str, name: &str) -> Case<'_> {
        self.case_on(&self.kubeconfig, folder, name)
    }
}

impl Case<'_> {
    /// Runs `lifeboat local ARGS` on the case's own machine.
    pub(crate) fn local(&self, args: &[&str]) -> Run {
        self.ends("here", args)
    }

    /// Runs `lifeboat local ARGS` on a machine that knows nothing of what the first one did.
    pub(crate) fn elsewhere(&self, args: &[&str]) -> Run {
        self.ends("elsewhere", args)
    }

    /// A run that hangs ends with code 124, one that is killed with the signal below zero.
    fn ends(&self, machine: &str, args: &[&str]) -> Run {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", PATIENCE, env!("CARGO_BIN_EXE_lifeboat")]);
        let output = self.complete(&mut command, machine, args).stdin(Stdio::null()).output().expect("run the binary");
        let signal = output.status.signal().unwrap_or_default();
        Run {
            code: output.status.code().unwrap_or(-signal),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs `lifeboat local ARGS`, and stops it by SIGTERM as soon as the script of the API server is met.
    pub(crate) fn stopped(&self, args: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        let command = self.complete(&mut command, "here", args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
        eventually("the request of the script", || self.api.is_met());
        let pid = child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().expect("kill").success());
        let output = child.wait_with_output().expect("its end");
        Run {
            code: output.status.code().unwrap_or_default(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs `lifeboat local ARGS` under a script that kills it; tells whether it did.
    pub(crate) fn is_killed(&self, args: &[&str]) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        let command = self.complete(&mut command, "here", args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
        for proxy in [&self.api, &self.s3] {
            proxy.victim(child.id());
        }
        let status = child.wait().expect("its end");
        for proxy in [&self.api, &self.s3] {
            proxy.no_victim();
            proxy.script(Vec::new());
        }
        status.signal() == Some(9)
    }

    fn complete<'a>(&self, command: &'a mut Command, machine: &str, args: &[&str]) -> &'a mut Command {
        let url = format!("s3://{BUCKET}/{}?region=us-east-1&endpoint={}", self.folder, self.s3.url());
        command.arg("local").args(args).args(["--bucket", &url]);
        command.env("KUBECONFIG", &self.kubeconfig);
        command.env("XDG_STATE_HOME", self.ground.folder.path().join(format!("{}-{machine}", self.name)));
        command.env("AWS_ACCESS_KEY_ID", self.ground.s3.access_key());
        command.env("AWS_SECRET_ACCESS_KEY", self.ground.s3.secret_key())
    }

    /// A file of the case's folder, as the S3 server keeps it.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.ground.s3.file(BUCKET, &format!("{}/{key}", self.folder))
    }

    /// The case's folder, past server and proxy: without a process of its own this is many times quicker.
    fn store(&self) -> Store {
        Store::new(Arc::new(Directory::open(self.file("")).expect("the folder")))
    }

    /// The backups that are there.
    pub(crate) fn backups(&self) -> Vec<String> {
        self.ground.runtime.block_on(self.store().backup_names()).expect("the backups")
    }

    /// Asserts that a backup is whole.
    pub(crate) fn assert_verified(&self, backup: &str) {
        let scratch = self.ground.folder.path().to_owned();
        let options = OpenOptions { limits: ReadLimits::default(), scratch, ignore_index: false };
        let found = self.ground.runtime.block_on(self.store().verify(backup, &options)).expect("the backup");
        assert!(found.has_manifest && found.files == 9 && found.problems.is_empty(), "{found:?}");
    }

    /// Uploads of the archive of a backup that were left open.
    pub(crate) fn open_uploads(&self, backup: &str) -> usize {
        let key = format!("{}/backups/{backup}/{backup}.tar.gz", self.folder);
        self.ground.s3.open_uploads(BUCKET, &key).expect("the uploads")
    }

    /// The objects in the archive of a backup, one line for each entry, sorted.
    pub(crate) fn archived(&self, backup: &str) -> Vec<String> {
        archived(&self.file(&format!("backups/{backup}/{backup}.tar.gz")))
    }
}

/// The objects in an archive, one line for each entry, sorted.
pub(crate) fn archived(path: &Path) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let limits = ReadLimits::default();
    let mut tar = TarReader::new(lifeboat_archive::gzip::capped(file, limits.total), limits);
    let (mut body, mut out) = (Vec::new(), Vec::new());
    while let Some(entry) = tar.next_file(&mut body).expect("a whole archive") {
        if let ArchivePath::Object(path) = entry.path
            && path.version.is_none()
        {
            out.push(path.key.to_string());
        }
    }
    out.sort();
    out
}

/// Runs the cases on so many threads and fails with the names and reasons of all that failed.
pub(crate) fn in_parallel<T: Sync + Debug>(threads: usize, cases: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(case))) {
                let failure = format!("{case:?}: {}", message(&*panic));
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// A namespace.
pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// ConfigMaps `map-0` and on.
pub(crate) fn config_maps(namespace: &str, count: usize) -> impl Iterator<Item = Value> {
    let namespace = namespace.to_owned();
    (0..count).map(move |n| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{n}"), "namespace": namespace}, "data": {"number": n.to_string()}})
    })
}

/// A ConfigMap whose fields a manager owns that applies them: restoring it takes a second write.
pub(crate) fn applied(namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "blue"},
        "metadata": {"name": "applied", "namespace": namespace, "managedFields": [
            {"manager": "pipeline", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:color": {}}}}]}})
}

/// Seven ConfigMaps that no compression makes much smaller: their archive, which holds each of them twice, goes up in two
/// parts.
pub(crate) fn incompressible(namespace: &str) -> Vec<Value> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // Any sequence without repetition does; this one is Marsaglia's.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..7)
        .map(|n| {
            let text: String = (0..1_000_000).map(|_| letter()).collect();
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("noise-{n}"), "namespace": namespace}, "data": {"noise": text}})
        })
        .collect()
}

/// The kubeconfig of the control plane that all tests share.
pub(crate) fn shared_plane() -> PathBuf {
    let path = std::env::var_os("LIFEBOAT_TEST_KUBECONFIG").expect("run the tests by `make test`: it starts a cluster");
    path.into()
}
