//! Resource policies: the document that people keep in a ConfigMap to say what happens to volumes, and which objects of which
//! namespaces are saved or restored (velero: internal/resourcepolicies).

mod document;
mod filter;
mod resolved;
mod volume;

pub use document::label_selector;
pub use volume::{SnapshotBy, VolumeAction, VolumeFacts, VolumeRule, volume_type};

pub(crate) use resolved::{AskedType, FilterPolicies};

use crate::includes::overlap_of;
use crate::rules_text::RulesText;
use crate::selector::SelectorError;
use document::{IncludeExclude, PolicyDocument};
use filter::{ClusterFilters, NamespaceFilters, line};
use lifeboat_object::Catalog;
use std::sync::Arc;
use volume::{Findings, VolumePolicy};

/// The operation for which a document is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyUse {
    /// A backup.
    Backup,
    /// A restore, which has no use for policies of volumes and for the lists of types.
    Restore,
}

/// The reason for which a text is no policies, with line and path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be decoded.
    #[error("{0}")]
    Undecoded(String),
    /// It says what makes no sense: everything, at once.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl PolicyError {
    /// The message about the document of this source, in Velero's words for the operation.
    #[must_use]
    pub fn told(&self, source: &str, operation: PolicyUse) -> String {
        let what = match self {
            Self::Undecoded(_) => "fail to read the ResourcePolicies from",
            Self::Invalid(_) => "fail to validate ResourcePolicies in",
        };
        let between = match operation {
            PolicyUse::Backup => " with error",
            PolicyUse::Restore => ":",
        };
        format!("{what} {source}{between} {self}")
    }
}

/// A document of resource policies of the version `v1`, checked.
#[derive(Clone, Debug, Default)]
pub struct ResourcePolicies {
    volumes: Vec<VolumePolicy>,
    lists: Option<IncludeExclude>,
    cluster: ClusterFilters,
    namespaced: Vec<NamespaceFilters>,
    /// Parts that have no effect.
    warnings: Vec<String>,
}

impl ResourcePolicies {
    /// Decodes and checks a document. Unknown fields and values are refused, and a second document in the text.
    ///
    /// # Errors
    /// [`PolicyError`], in Velero's words where it has some (velero: internal/resourcepolicies).
    pub fn parse(text: &str, operation: PolicyUse) -> Result<Self, PolicyError> {
        // compat: two blanks.
        let undecoded =
            |why: &str| PolicyError::Undecoded(format!("failed to decode yaml data into resource policies  {why}"));
        if text.len() > RulesText::MOST_BYTES {
            return Err(undecoded(&format!("it has more than {} bytes", RulesText::MOST_BYTES)));
        }
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Err(undecoded("EOF"));
        }
        let document: PolicyDocument =
            serde_saphyr::from_str(text).map_err(|e| undecoded(&RulesText::yaml_error(&e)))?;
        if document.version != "v1" {
            let version = &document.version;
            let problem = format!("incompatible version number {version} with supported version v1");
            return Err(PolicyError::Invalid(vec![problem]));
        }
        let (policies, problems) = Self::checked(document, operation);
        if problems.is_empty() { Ok(policies) } else { Err(PolicyError::Invalid(problems)) }
    }

    fn checked(document: PolicyDocument, operation: PolicyUse) -> (Self, Vec<String>) {
        let Findings { mut problems, mut warnings } = Findings::default();
        if operation == PolicyUse::Restore {
            let (volumes, lists) = (&document.volume_policies, &document.include_exclude_policy);
            let volumes =
                volumes.iter().map(|part| format!("volumePolicies are not supported for restore{}", line(part)));
            problems.extend(volumes);
            let lists =
                lists.iter().map(|part| format!("includeExcludePolicy is not supported for restore{}", line(part)));
            problems.extend(lists);
        }
        let volumes = document.volume_policies.map(|policies| policies.value).unwrap_or_default();
        let volumes = volumes.into_iter().enumerate();
        let mut found = Findings::default();
        let volumes =
            volumes.filter_map(|(number, policy)| VolumePolicy::checked(number, policy, &mut found)).collect();
        problems.append(&mut found.problems);
        warnings.append(&mut found.warnings);
        let lists = document.include_exclude_policy.map(|lists| {
            let line = line(&lists);
            let told = list_problems(&lists.value).into_iter();
            problems.extend(told.map(|problem| format!("includeExcludePolicy: {problem}{line}")));
            lists.value
        });
        let cluster = ClusterFilters::checked(document.cluster_scoped_filter_policy, &mut problems);
        let namespaced = NamespaceFilters::checked(document.namespaced_filter_policies, &mut problems);
        (Self { volumes, lists, cluster, namespaced, warnings }, problems)
    }

    /// Puts the policies for volumes of another document, that of all backups, behind those of this one. Gives a
    /// warning for each part of the other that does not apply to all backups.
    pub fn append_global(&mut self, global: &Self) -> Vec<String> {
        self.volumes.extend(global.volumes.iter().cloned());
        let parts = [
            (global.lists.is_some(), "includeExcludePolicy"),
            (!global.cluster.is_empty(), "clusterScopedFilterPolicy"),
            (!global.namespaced.is_empty(), "namespacedFilterPolicies"),
        ];
        let ignored = parts.into_iter().filter(|(is_there, _)| *is_there);
        ignored
            .map(|(_, part)| format!("{part} of the global policies does not count: only volumePolicies do"))
            .collect()
    }

    /// The same policies, which say of each policy for volumes that it comes from there, such as `ConfigMap velero/policies`.
    #[must_use]
    pub fn from_source(mut self, source: &str) -> Self {
        let source: Arc<str> = source.into();
        self.volumes.iter_mut().for_each(|policy| policy.source = Arc::clone(&source));
        self.warnings.iter_mut().for_each(|warning| *warning = format!("{source}: {warning}"));
        self
    }

    /// Parts of the document that have no effect, such as a parameter that its action does not know.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The first policy that matches a volume.
    #[must_use]
    pub fn volume_rule(&self, facts: &VolumeFacts) -> Option<VolumeRule<'_>> {
        self.volumes.iter().find(|policy| policy.matches(facts)).map(VolumePolicy::rule)
    }

    /// All policies for volumes, in the order in which they are asked.
    pub fn volume_rules(&self) -> impl Iterator<Item = VolumeRule<'_>> {
        self.volumes.iter().map(VolumePolicy::rule)
    }

    /// Returns true if there are policies for volumes.
    #[must_use]
    pub fn has_volume_policies(&self) -> bool {
        !self.volumes.is_empty()
    }

    /// The filters of objects, resolved against the types of a cluster; empty without a document.
    ///
    /// # Errors
    /// [`SelectorError::Ambiguous`]: two filters of a policy name one type.
    pub(crate) fn filters(policies: Option<&Self>, catalog: &Catalog) -> Result<FilterPolicies, SelectorError> {
        policies.map_or_else(
            || Ok(FilterPolicies::default()),
            |policies| FilterPolicies::resolve(&policies.cluster, &policies.namespaced, catalog),
        )
    }

    /// Returns true if there are filters of objects, for namespaces or for the cluster.
    pub(crate) fn has_filters(&self) -> bool {
        !self.cluster.is_empty() || !self.namespaced.is_empty()
    }

    /// The lists of types, if there are any: the included and excluded ones of namespaces, and those of the cluster.
    pub(crate) fn lists(&self) -> Option<[&[String]; 4]> {
        let lists = self.lists.as_ref()?;
        Some([
            &lists.included_namespace_scoped_resources,
            &lists.excluded_namespace_scoped_resources,
            &lists.included_cluster_scoped_resources,
            &lists.excluded_cluster_scoped_resources,
        ])
    }
}

fn list_problems(lists: &IncludeExclude) -> Vec<String> {
    let scopes = [
        (&lists.included_cluster_scoped_resources, &lists.excluded_cluster_scoped_resources),
        (&lists.included_namespace_scoped_resources, &lists.excluded_namespace_scoped_resources),
    ];
    let mut problems = Vec::new();
    if scopes.iter().any(|(includes, excludes)| includes.iter().chain(*excludes).any(|name| name == "*")) {
        problems.push("cannot use '*' in includes or excludes filters in the policy".to_owned());
    }
    problems.extend(scopes.iter().flat_map(|(includes, excludes)| overlap_of(includes, excludes)));
    problems
}

#[cfg(test)]
mod tests;
