//! Problems of the parts that move the data of volumes.

use super::state::{Attention, MoverInventory, NodeAgentSet};
use lifeboat_api::well_known::{LABEL_ROLE, NODE_AGENT};
use lifeboat_api::{BackupRepository, BackupRepositoryMaintenanceResult as Outcome, BackupRepositoryMaintenanceStatus};
use lifeboat_object::counted;

/// The number of runs that fail one after the other before that is reported: one that failed is tried again soon.
const FAILED: usize = 2;

/// Reports node agents that are ready on no node, and repositories whose maintenance fails. `program` is the first word of the commands.
pub(super) fn attention(movers: &MoverInventory, program: &str) -> Vec<Attention> {
    let agents = unready(&movers.node_agents);
    agents.into_iter().chain(movers.repositories.iter().filter_map(|one| unmaintained(one, program))).collect()
}

/// Node agents of which no pod is ready. Most clusters have no node for those of Windows.
fn unready(sets: &[NodeAgentSet]) -> Option<Attention> {
    let first = sets.first()?;
    if sets.iter().any(|set| set.ready != Some(0)) {
        return None;
    }
    let nodes: u64 = sets.iter().map(|set| set.nodes).sum();
    let of = if nodes == 0 { "none was to have it".to_owned() } else { format!("of {}", counted(nodes, "node")) };
    let (namespace, name) = (&first.namespace, &first.name);
    Some(Attention {
        what: format!(
            "the node agent is ready on no node ({of}): the data of volumes is neither saved in repositories nor restored from them"
        ),
        next: format!(
            "`kubectl -n {namespace} describe daemonset {name}`, `kubectl -n {namespace} describe pods -l {LABEL_ROLE}={NODE_AGENT}`"
        ),
    })
}

/// A repository of which the last runs of maintenance failed.
fn unmaintained(repository: &BackupRepository, program: &str) -> Option<Attention> {
    let has_failed = |run: &&BackupRepositoryMaintenanceStatus| run.result == Some(Outcome::Failed);
    let runs = &repository.status.recent_maintenance;
    let failed: Vec<_> = runs.iter().rev().take_while(has_failed).collect();
    let (last, first) = (failed.first()?, failed.last()?);
    if failed.len() < FAILED {
        return None;
    }
    let name = &repository.metadata.name;
    let at = first.complete_timestamp.or(first.start_timestamp);
    let since = match at {
        // Older runs are not kept.
        Some(at) if failed.len() == runs.len() => format!(" since {at} at the latest"),
        Some(at) => format!(" since {at}"),
        None => String::new(),
    };
    let why = if last.message.is_empty() { "it gave no reason" } else { &last.message };
    Some(Attention {
        what: format!(
            "the maintenance of repository {name} fails{since}, the last {} of it: {why}; deleted backups give no space back there",
            counted(failed.len() as u64, "run")
        ),
        next: format!("`{program} repo describe {name}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(movers: &MoverInventory) -> Vec<(String, String)> {
        attention(movers, "lifeboat").into_iter().map(|Attention { what, next }| (what, next)).collect()
    }

    #[test]
    fn a_node_agent_that_is_ready_nowhere_needs_attention() {
        let of = |sets: &[(&str, u64, Option<u64>)]| {
            let set = |(name, nodes, ready): &(&str, u64, Option<u64>)| {
                let (namespace, name) = ("velero".to_owned(), (*name).to_owned());
                NodeAgentSet { namespace, name, nodes: *nodes, ready: *ready }
            };
            texts(&MoverInventory { node_agents: sets.iter().map(set).collect(), ..MoverInventory::default() })
        };
        let unready = |of: &str| {
            let what = format!(
                "the node agent is ready on no node ({of}): the data of volumes is neither saved in repositories nor restored from them"
            );
            let next = "`kubectl -n velero describe daemonset node-agent`, `kubectl -n velero describe pods -l role=node-agent`";
            vec![(what, next.to_owned())]
        };
        assert_eq!(of(&[("node-agent", 3, Some(0))]), unready("of 3 nodes"));
        assert_eq!(of(&[("node-agent", 1, Some(0)), ("node-agent-windows", 0, Some(0))]), unready("of 1 node"));
        assert_eq!(of(&[("node-agent", 0, Some(0))]), unready("none was to have it"));
        for well in [
            &[][..],
            &[("node-agent", 3, Some(1))],
            &[("node-agent", 3, Some(3)), ("node-agent-windows", 0, Some(0))],
            &[("node-agent", 0, None)],
        ] {
            assert_eq!(of(well), [], "{well:?}");
        }
    }

    #[test]
    fn a_repository_whose_last_runs_of_maintenance_failed_needs_attention() {
        let run = |hour: u32, result: &str, message: &str| {
            json!({"result": result, "startTimestamp": format!("2026-11-22T{hour:02}:00:00Z"),
                "completeTimestamp": format!("2026-11-22T{hour:02}:05:00Z"), "message": message})
        };
        let of = |runs: &[serde_json::Value]| {
            let mut repository = BackupRepository::default();
            repository.metadata.name = "shop-default-kopia".to_owned();
            repository.status.recent_maintenance = serde_json::from_value(json!(runs)).unwrap();
            texts(&MoverInventory { repositories: vec![repository], ..MoverInventory::default() })
        };
        let fails = |since: &str, runs: u64, why: &str| {
            let what = format!(
                "the maintenance of repository shop-default-kopia fails since {since}, the last {runs} runs of it: {why}; deleted backups give \
                 no space back there"
            );
            vec![(what, "`lifeboat repo describe shop-default-kopia`".to_owned())]
        };
        let (good, bad) = (run(1, "Succeeded", ""), |hour: u32| run(hour, "Failed", "the bucket is full"));
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[bad(0), good.clone()]), []);
        assert_eq!(of(&[good.clone(), bad(2)]), [], "it is tried again in five minutes");
        assert_eq!(of(&[bad(0), good, bad(2), bad(3)]), fails("2026-11-22T02:05:00Z", 2, "the bucket is full"));
        let silent = run(4, "Failed", "");
        assert_eq!(of(&[bad(2), bad(3), silent]), fails("2026-11-22T02:05:00Z at the latest", 3, "it gave no reason"));
    }
}
