//! The limit on hooks of pods, which servers and local commands share.

use crate::flags::positive_duration;
use clap::Args;
use lifeboat_api::Duration;

/// Limits on the hooks of annotations.
#[derive(Clone, Copy, Debug, Args)]
pub struct HookLimitArgs {
    /// The most time that a command of an annotation of a pod may ask for; a hook in the spec of a backup or restore may have
    /// four hours
    #[arg(long, value_parser = positive_duration, default_value = "15m", value_name = "DURATION")]
    pub max_hook_timeout: Duration,
}
