//! Notices that the driver refuses a group, of which the VolumeGroupSnapshot itself may say nothing.

use crate::method::csi::answer::text;
use crate::method::csi::backup::refusal::{WaitLimit, is_final};
use crate::method::csi::backup::snapshots::{Created, CsiSnapshots, WaitFailure};
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::objects::GroupTypes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause between two looks at the content of a group that is waited for.
const PAUSE: Duration = Duration::from_secs(2);

impl CsiSnapshots {
    /// Waits until the content of a group says that its driver refuses it, or its error has not passed in time: the group itself may say nothing
    /// of that.
    pub(crate) async fn refused_content(
        &self,
        types: &GroupTypes,
        created: Created<'_>,
        mut patience: WaitLimit,
    ) -> WaitFailure {
        loop {
            sleep(PAUSE).await;
            let groups = Groups { api: self.api(), groups: types };
            // Who waits for the group itself has a deadline.
            let Ok(Some(group)) = groups.group(created.namespace, created.name).await else { continue };
            let name = text(&group, "/status/boundVolumeGroupSnapshotContentName");
            if name.is_empty() {
                continue;
            }
            let Ok(Some(content)) = groups.api.read(&types.contents, None, name).await else { continue };
            let said = text(&content, "/status/error/message");
            if is_final(said) {
                return WaitFailure::Refused(said.to_owned());
            }
            let now = Instant::now();
            patience.see(!said.is_empty(), now);
            if patience.is_shortened() && now > patience.until() {
                return WaitFailure::Unpassed(said.to_owned());
            }
        }
    }
}
