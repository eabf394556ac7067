//! Movers that were ended from outside, told from those that have failed. Pure.
//!
//! A mover that is killed (evicted, out of memory, its node drained, its pod deleted by somebody) says nothing about the volume, so another
//! one goes on from what is there. A mover that ends with an error of its own would end so again.

/// The most movers of a volume, one after the other.
pub const MOST_ATTEMPTS: usize = 3;
/// Exit codes of processes that were killed, and told to end, by a signal.
const BY_SIGNAL: [i64; 2] = [137, 143];

/// The end of a mover's pod that has not succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoverEnd<'a> {
    /// The reason and the message of the pod.
    pub reason: &'a str,
    /// See `reason`.
    pub message: &'a str,
    /// The node on which it ran.
    pub node: &'a str,
    /// The reason for which the cluster ended it, such as an eviction or the loss of its node; empty for none.
    pub disruption: &'a str,
    /// The exit code of its container, and the reason; `None` where nobody has seen it end.
    pub container: Option<(i64, &'a str)>,
}

impl MoverEnd<'_> {
    /// The reason for which it was ended from outside; `None` when it ended by itself. `for_more_memory` says where a user gives it more.
    #[must_use]
    pub fn killed(&self, for_more_memory: &str) -> Option<String> {
        Some(match (self.reason, self.container) {
            ("Evicted", _) => format!("data path pod was evicted, message: {}", self.message),
            (_, Some((_, "OOMKilled"))) => {
                format!("the mover's pod was killed because it needed more memory than its limit; {for_more_memory}")
            }
            // The kubelet gives a reason for a pod that it has ended or not admitted, and none for one that ended by itself.
            (reason, _) if !reason.is_empty() => match self.message {
                "" => format!("the mover's pod was ended: {reason}"),
                message => format!("the mover's pod was ended: {reason}: {message}"),
            },
            (_, Some((code, _))) if BY_SIGNAL.contains(&code) => {
                format!("the mover's pod was killed on node {} (exit code {code})", self.node)
            }
            // Its node is gone, so nobody has seen its container end.
            (_, None) if !self.disruption.is_empty() => format!("the mover's pod was ended: {}", self.disruption),
            _ => return None,
        })
    }
}
