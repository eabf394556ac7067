//! Sends the objects of an installation, one after the other (velero: pkg/install).

use crate::clear::clear;
use crate::differ::{DifferingObject, differences};
use crate::error::InstallError;
use crate::objects::{is_custom, is_restricting};
use crate::read::PAUSE;
use crate::single::{self, address, found};
use crate::step::{ApplyOutcome, InstallStep, StepReporter};
use crate::wait::DEFINITIONS_LIMIT;
use lifeboat_cluster::Cluster;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// Sends objects in their order and tells what becomes of each. An object that is there already stays as it is, or with `apply`
/// is changed. Gives the objects that stayed and are not as they were asked for.
///
/// Dropped, it leaves the objects that it has sent; sent again, all are as they would have been.
///
/// # Errors
/// [`InstallError`] at the first object that the API server refuses; those before it were sent.
pub async fn send(
    cluster: &Cluster,
    objects: &[Value],
    apply: bool,
    tell: &mut StepReporter<'_>,
) -> Result<Vec<DifferingObject>, InstallError> {
    let mut left = Vec::new();
    let restricted = objects.iter().any(is_restricting);
    for object in objects {
        let (resource, _, name) = address(object)?;
        let kind = resource.kind.as_str();
        tell(InstallStep::Sending { kind, name, apply }).map_err(InstallError::Tell)?;
        let end = Instant::now() + DEFINITIONS_LIMIT;
        let outcome = loop {
            if apply {
                clear(cluster, object, restricted).await?;
            }
            match send_one(cluster, object, apply).await {
                // A type is served a moment after its definition is established.
                Err(InstallError::Cluster(e)) if e.is_not_found() && is_custom(object) && Instant::now() < end => {
                    sleep(PAUSE).await;
                }
                sent => break sent?,
            }
        };
        tell(InstallStep::Sent { kind, name, outcome }).map_err(InstallError::Tell)?;
        if outcome == ApplyOutcome::Exists {
            left.extend(compare(cluster, object).await?);
        }
    }
    Ok(left)
}

async fn send_one(cluster: &Cluster, object: &Value, apply: bool) -> Result<ApplyOutcome, InstallError> {
    if apply {
        single::apply(cluster, object).await?;
        return Ok(ApplyOutcome::Applied);
    }
    let created = single::create(cluster, object).await?;
    Ok(if created { ApplyOutcome::Created } else { ApplyOutcome::Exists })
}

/// Compares an object with the one in the cluster; `None` when they do not differ.
async fn compare(cluster: &Cluster, wanted: &Value) -> Result<Option<DifferingObject>, InstallError> {
    let (resource, namespace, name) = address(wanted)?;
    let differences = match found(cluster, wanted).await {
        Ok(Some(found)) => differences(&found, wanted),
        Ok(None) => return Ok(None),
        // To install over it takes no right to read it.
        Err(InstallError::Cluster(e)) if e.is_denied() => vec!["we may not read it".to_owned()],
        Err(e) => return Err(e),
    };
    let (name, namespace) = (name.to_owned(), namespace.map(str::to_owned));
    Ok((!differences.is_empty()).then_some(DifferingObject { kind: resource.kind, name, namespace, differences }))
}
