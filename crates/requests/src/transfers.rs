//! The transfers of volumes of backups and restores.

use lifeboat_client::{Client, Object, api_resource};
use lifeboat_cluster::{ClusterError, Failure, ListRequest};
use lifeboat_view::transfer::VolumeTransfer;

/// Lists the transfers of a kind with these labels, each read by itself: one that cannot be read, such as that of a
/// later version, is shown by its name. A cluster without the definition of the kind has none.
///
/// # Errors
/// [`ClusterError`].
pub async fn list_transfers<T: Object>(client: &Client, labels: &str) -> Result<Vec<VolumeTransfer>, ClusterError>
where
    for<'a> VolumeTransfer: From<&'a T>,
{
    let request = ListRequest::all(api_resource::<T>()).in_namespace(client.namespace.clone()).labelled(labels);
    let (mut list, mut found) = (client.cluster.list(request), Vec::new());
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                for body in bodies {
                    found.push(VolumeTransfer::parse::<T>(&body).map_err(|e| ClusterError {
                        verb: "list",
                        what: T::PLURAL.to_owned(),
                        failure: Failure::Invalid(e.to_string()),
                    })?);
                }
            }
            Ok(None) => return Ok(found),
            Err(e) if e.is_not_found() => return Ok(Vec::new()),
            Err(e) => return Err(e),
        }
    }
}
