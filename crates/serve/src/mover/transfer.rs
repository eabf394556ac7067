//! A transfer, and what its mover is given.

use lifeboat_client::Client;
use lifeboat_kopia::Random;
use lifeboat_mover::protocol::AccessPoint;
use lifeboat_operation::Clock;
use lifeboat_provider::ProviderSettings;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The surroundings of a mover.
pub struct MoverEnv {
    /// The resources of the namespace in which the server lives.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// The source of random bytes.
    pub random: Random,
    /// Settings of the storage of locations.
    pub storage: ProviderSettings,
    /// A folder for indexes.
    pub scratch: PathBuf,
    /// The file of the termination message.
    pub termination_file: PathBuf,
    /// The threads that hash, compress and encrypt.
    pub threads: usize,
    /// Ends the transfer at once.
    pub stop: CancellationToken,
}

/// The transfer that a pod was started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The name of the resource.
    pub name: String,
    /// The volume in this pod.
    pub volume: AccessPoint,
    /// The attempt that this pod is, counted from 1; `None` where nobody has told it.
    pub attempt: Option<usize>,
}
