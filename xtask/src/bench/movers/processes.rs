//! The processes of pods, as the kernel counts them.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// The work and memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProcessCost {
    /// Seconds of the processors in the program.
    pub(super) user: f64,
    /// Seconds of the processors in the kernel for it.
    pub(super) system: f64,
    /// The most memory that it has held.
    pub(super) peak_mib: f64,
    /// The memory that it holds now.
    pub(super) now_mib: f64,
}

/// The processes of pods, each as it was seen last. Times and peaks only grow, so that the last look at one that has
/// ended is short of them by the pause between two looks.
#[derive(Debug, Default)]
pub(super) struct Processes {
    seen: BTreeMap<(String, u32), ProcessCost>,
}

impl Processes {
    /// Looks at all processes of the pods of these UIDs.
    pub(super) fn look(&mut self, pods: &[String]) -> Result<()> {
        for entry in std::fs::read_dir("/proc").context("list processes")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // One that ends meanwhile is passed over.
            let Ok(groups) = std::fs::read_to_string(format!("/proc/{pid}/cgroup")) else { continue };
            let Some(pod) = pods.iter().find(|uid| groups.contains(uid.as_str())) else { continue };
            if let Some(cost) = cost_of(pid) {
                self.seen.insert((pod.clone(), pid), cost);
            }
        }
        Ok(())
    }

    /// The sum of the work of a pod, and the memory of its largest process.
    pub(super) fn of(&self, pod: &str) -> ProcessCost {
        let own = self.seen.iter().filter(|((of, _), _)| of == pod).map(|(_, cost)| cost);
        own.fold(ProcessCost::default(), |all, one| ProcessCost {
            user: all.user + one.user,
            system: all.system + one.system,
            peak_mib: all.peak_mib.max(one.peak_mib),
            now_mib: all.now_mib.max(one.now_mib),
        })
    }
}

fn cost_of(pid: u32) -> Option<ProcessCost> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    parsed(&read("stat")?, &read("status")?)
}

/// Reads the two files of a process; `None` for one that has ended and is not waited for yet.
fn parsed(stat: &str, status: &str) -> Option<ProcessCost> {
    // Behind the name, which is in brackets and may hold blanks; both are in hundredths of a second on Linux.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / 100.0);
    let mib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
    };
    Some(ProcessCost { user: seconds(11)?, system: seconds(12)?, peak_mib: mib("VmHWM:")?, now_mib: mib("VmRSS:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_of_a_process_are_read() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10";
        let status = "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let cost = ProcessCost { user: 2.5, system: 0.5, peak_mib: 2.0, now_mib: 1.0 };
        assert_eq!(parsed(stat, status), Some(cost));
        assert_eq!(parsed(stat, "Name:\ta\n"), None);
        let seen = [((String::from("x"), 1), cost), ((String::from("x"), 2), cost), ((String::from("y"), 3), cost)];
        let processes = Processes { seen: seen.into_iter().collect() };
        assert_eq!(processes.of("x"), ProcessCost { user: 5.0, system: 1.0, ..cost });
    }

    #[test]
    fn the_cost_of_this_process_is_read() {
        let cost = cost_of(std::process::id()).unwrap();
        assert!(cost.peak_mib >= cost.now_mib && cost.now_mib > 0.0, "{cost:?}");
    }
}
