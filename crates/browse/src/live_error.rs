//! Errors of comparing a backup and a cluster.

use lifeboat_cluster::ClusterError;
use lifeboat_object::{GroupResource, HeadError, printable};
use lifeboat_select::SelectorError;
use lifeboat_store::StoreError;

/// Reasons for which a backup and a cluster cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] StoreError),
    /// The types and namespaces of the cluster cannot be read.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The filters of the backup are not valid.
    #[error("the filters of the backup cannot be used")]
    Filter(#[from] SelectorError),
    /// A type cannot be listed.
    #[error("{} are not compared to the end", printable(.resource))]
    List {
        /// The type.
        resource: GroupResource,
        /// The reason.
        #[source]
        source: ClusterError,
    },
    /// The cluster does not say whether it serves a type.
    #[error("{} are not compared, because the cluster does not say whether it serves them: {}", printable(.resource), printable(.why))]
    Unknown {
        /// The type.
        resource: GroupResource,
        /// The group that does not answer, and the reason.
        why: String,
    },
    /// The task that lists a type has broken.
    #[error("{} are not compared to the end: the task that lists them has broken", printable(.resource))]
    Worker {
        /// The type.
        resource: GroupResource,
    },
    /// An element of the cluster's list is not an object.
    #[error("{} are not compared to the end: the cluster has listed something that cannot be read", printable(.resource))]
    Object {
        /// The type.
        resource: GroupResource,
        /// The reason.
        #[source]
        source: HeadError,
    },
}

impl LiveError {
    /// Returns true if the user lacks a right to list the type.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::List { source, .. } if source.is_forbidden())
    }

    /// The type that alone cannot be compared, as the cluster answers, and refuses or breaks this one only; `None` when no other
    /// can be compared either.
    #[must_use]
    pub fn resource(&self) -> Option<&GroupResource> {
        match self {
            Self::List { resource, source } => {
                source.status().is_some_and(|status| status.code != 401).then_some(resource)
            }
            Self::Unknown { resource, .. } | Self::Worker { resource } | Self::Object { resource, .. } => {
                Some(resource)
            }
            Self::Archive(_) | Self::Cluster(_) | Self::Filter(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_breaks_concerns_the_type_that_it_lists() {
        let pods = GroupResource::new("", "pods");
        let broken = LiveError::Worker { resource: pods.clone() };
        assert_eq!(broken.to_string(), "pods are not compared to the end: the task that lists them has broken");
        assert_eq!((broken.resource(), broken.is_forbidden()), (Some(&pods), false));
        let archive = LiveError::from(StoreError::Worker("reading the index"));
        assert_eq!(archive.resource(), None);
    }
}
