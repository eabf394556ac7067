//! Faults of the pods of movers, and of the password of their repository.

use crate::node::transfer_faults::meet_faults_of_pods_and_password;

#[test]
#[ignore = "needs a node: make test-long"]
fn transfers_tell_of_image_room_and_password_and_outlive_an_eviction() {
    meet_faults_of_pods_and_password();
}
