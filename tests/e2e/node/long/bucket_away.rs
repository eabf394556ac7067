//! A bucket that is away for longer than three minutes while files of volumes move.

use crate::node::transfer_faults::FaultyGround;
use std::time::Duration;

#[test]
#[ignore = "needs a node and takes ten minutes: make test-long"]
fn transfers_outlive_a_bucket_that_is_away_for_over_three_minutes() {
    let ground = FaultyGround::start("absence");
    ground.outlives_absence("absence", Duration::from_secs(200));
    ground.end();
}
