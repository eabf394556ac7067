//! The calls that each new process gets before any other (velero: pkg/plugin/clientmgmt/manager.go).

use crate::client;
use crate::connection::Connection;
use crate::error::PluginError;
use crate::failure::{self, CallFailure, Cause};
use crate::identity::{PluginKind, PluginName};
use lifeboat_action::ActionScope;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;
use tokio::time::timeout;

/// A call that comes first. Plugins make what a name stands for at its first call, and two first calls at the same time end a
/// process that was written in Go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FirstCall {
    /// Asks for the scope of an action.
    AppliesTo(PluginKind, PluginName),
    /// The configuration of a store or a snapshotter.
    Init(PluginKind, PluginName, BTreeMap<String, String>),
}

/// Without the configuration, which may hold secrets.
impl Debug for FirstCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AppliesTo(kind, name) => write!(f, "AppliesTo {kind} {name}"),
            Self::Init(kind, name, _) => write!(f, "Init {kind} {name}"),
        }
    }
}

impl FirstCall {
    /// Makes the call. What an action applies to is empty for all others.
    ///
    /// # Errors
    /// [`PluginError::Call`].
    pub(crate) async fn call(&self, connection: &Connection, limit: Duration) -> Result<ActionScope, PluginError> {
        let channel = connection.channel.clone();
        let call = async {
            match self {
                Self::AppliesTo(kind, name) => client::applies_to(channel, *kind, name).await,
                Self::Init(kind, name, config) => {
                    client::init(channel, *kind, name, config).await.map(|()| ActionScope::default())
                }
            }
        };
        let answer = timeout(limit, call).await;
        connection.logs.drain();
        let failure = match answer {
            Ok(Ok(scope)) => return Ok(scope),
            Ok(Err(status)) if failure::is_of_transport(&status) => {
                CallFailure::broken(Cause::Gone, &failure::chain(&status))
            }
            Ok(Err(status)) => CallFailure::said(&status),
            Err(_) => CallFailure::late(&failure::unanswered(self.name(), limit)),
        };
        Err(PluginError::Call(format!("{}: {}", self.what(), failure.text)))
    }

    /// Returns true if the call changes the effect of other calls.
    pub(crate) fn changes_state(&self) -> bool {
        matches!(self, Self::Init(..))
    }

    fn name(&self) -> &PluginName {
        match self {
            Self::AppliesTo(_, name) | Self::Init(_, name, _) => name,
        }
    }

    fn what(&self) -> String {
        match self {
            Self::AppliesTo(kind, name) => format!("the {kind} {name} does not say what it applies to"),
            Self::Init(kind, name, _) => format!("the {kind} {name} does not take its configuration"),
        }
    }
}
