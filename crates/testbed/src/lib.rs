//! The ground for tests: a real etcd, kube-apiserver and kube-controller-manager as plain processes of a plain user, on
//! loopback, without containers.
//!
//! [`Binaries::ensure`] builds them once from Go modules into the cache folder; [`ControlPlane::start`] takes about
//! five seconds. Everything started here ends with the process that started it, however that dies.
//!
//! [`Node::start`] adds a node to one: kubelet, containerd and a CSI driver with volumes, snapshots and groups. It needs root,
//! and namespaces of its own ([`in_namespaces`]).
//!
//! Only for development. Start reading at [`ControlPlane`].

mod api_client;
mod binaries;
mod built;
mod certificates;
mod clock;
mod command;
mod control_plane;
mod ec2;
mod etcd;
mod furnish;
mod helm;
mod https;
mod image;
mod informers;
mod kopia;
mod kubectl;
mod node;
mod packages;
mod pause;
mod plugins;
mod process;
mod proxy;
mod restic;
mod s3;
mod scripted;
mod spans;
mod stored;
mod terminal;
mod velero;

pub use api_client::ApiClient;
pub use binaries::{Binaries, cache_folder};
pub use clock::with_wrong_clock;
pub use command::{output_within, rest_of_output_within, status_within};
pub use control_plane::{ControlPlane, Kubectl};
pub use ec2::Ec2Server;
pub use helm::helm;
pub use image::{Entry, Image, Packing, digest};
pub use informers::informers;
pub use kopia::{KOPIA_VERSIONS, Kopia, OLD_KOPIA_VERSIONS, build_kopia};
pub use kubectl::{KUBECTL_VERSIONS, build_kubectl};
pub use node::{
    DRIVER, Driver, LIFEBOAT_IMAGE, NODE_STATE, Node, VELERO_IMAGE, VELERO_PLUGIN_IMAGE, import_program, import_velero,
    in_namespaces,
};
pub use packages::{DebianPackage, dashboard, install_debian_packages, program_of_crate, with_python_packages};
pub use plugins::{
    REAL_PLUGINS, RealPlugin, plugin_fixture, plugin_fixture_that_detects_races, plugin_host, real_plugin,
};
pub use process::{Daemon, START_TIMEOUT, free_port};
pub use proxy::{ContainerCommand, Containers, Fault, Kill, Nth, Proxy, Ran, Rule, Seen};
pub use restic::{RESTIC_VERSIONS, Restic};
pub use s3::S3Server;
pub use scripted::{ScriptedRequest, ScriptedResponse, ScriptedServer, scripted_api_server};
pub use spans::Spans;
pub use terminal::Terminal;
pub use velero::VeleroPrograms;
